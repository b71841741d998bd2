"""What is known of the runs of an attribute, from covariances that tests choose."""

import numpy as np

from dpnotebook.planner.run_state import RunState


def line_of_covariance(covariance, connected=None):
    """Return the line whose runs between neighbouring cut points have these covariances, all known unless said.

    Parameters
    ----------
    covariance
        Shape (cells, cells).
    connected
        Groups of the cut points, shape (cells + 1,).
    """
    matrix = np.asarray(covariance, dtype=float)
    corners = np.zeros((len(matrix) + 1, len(matrix) + 1))
    corners[1:, 1:] = matrix.cumsum(axis=0).cumsum(axis=1)
    groups = np.zeros(len(corners), dtype=np.intp) if connected is None else np.asarray(connected, dtype=np.intp)
    return RunState(corners, groups)

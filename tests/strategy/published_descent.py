"""OPT_0 as HDMM describes it, to compare ours with: plain formulas, a random start, the library's descent."""

import numpy as np


def published_descent(gram, cells, rows, seed, tolerance=1e-4, told=None):
    """Return the loss |W A^+|_F^2 of the p-Identity where one descent of L-BFGS-B ends.

    Source: HDMM, section 4.3 and Theorem 17; its published code ends at a relative decrease of 1e-4 in one step.
    Losses on the way are added to `told`, one an evaluation, which is two products with the Gram matrix; ours is one.
    """
    from scipy.optimize import minimize

    def evaluate(flat):
        theta = flat.reshape(rows, cells)
        sums = 1 + theta.sum(axis=0)
        scaled = gram * sums * sums[:, None]
        solved = np.linalg.solve(np.eye(rows) + theta @ theta.T, theta)
        product = solved @ scaled
        loss = np.trace(scaled) - np.vdot(product, theta)
        by_sums = np.diag(gram) * sums - np.einsum("ki,ki->i", theta, (solved * sums) @ gram)
        if told is not None:
            told.append(loss)
        return loss, 2 * (by_sums - product + (product @ theta.T) @ solved).ravel()

    start = np.random.default_rng(seed).random(rows * cells)
    bounds = [(0, None)] * start.size
    found = minimize(evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": tolerance})
    return float(found.fun)

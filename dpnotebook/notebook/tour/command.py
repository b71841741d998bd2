"""The command line: `dpnotebook tour`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from dpnotebook.errors import DPError
from dpnotebook.notebook.tour import folder as tour_folder
from dpnotebook.notebook.tour import lab, page
from dpnotebook.notebook.tour.jupyter import check_installed

FOLDER = "dpnotebook-tour"
INTERRUPTED = 130  # what a shell says of a program that Ctrl+C ended

ABOUT_TOUR = """\
Put the notebooks that come with dpnotebook into a folder of yours and open the tour in JupyterLab.
Everything is on this machine: nothing is fetched, and the address works for whoever has its token.
What is in the folder already, notebooks that you changed and the ledger included, is left as it is;
delete a notebook to get it back as it came."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Parameters
    ----------
    argv
        The words after `dpnotebook`; those of this process when None.
    """
    parser, tour = _parsers()
    options = parser.parse_args(argv)
    if options.command is None:
        parser.print_help()
        return 0
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a script starts what it does not wait for
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _tour(tour, options)
    except DPError as error:
        print(f"dpnotebook: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return INTERRUPTED
    return 0


def _tour(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    name = _notebook(parser, options.notebook)
    check_installed(*(page.NEEDS if options.run else lab.NEEDS))
    laid = tour_folder.lay_out(options.folder)
    print(_said(laid), flush=True)
    notebook = laid.folder / f"{name}.ipynb"
    if options.run:
        written = page.run(notebook, _watch)
        print(f"Every card and plot is in\n\n    {written}\n\nOpen it in any browser; it needs no network.")
    else:
        lab.serve(notebook, options.port, options.ip, not options.no_browser)
        print(f"Stopped. The notebooks are in {laid.folder}")


def _parsers() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    parser = argparse.ArgumentParser(
        prog="dpnotebook",
        description="Differentially private answers in Jupyter. `dpnotebook tour` is where to begin.",
    )
    parser.add_argument("--version", action="version", version=f"dpnotebook {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    tour = commands.add_parser(
        "tour",
        help="open the tour in JupyterLab, or run it and write one HTML page",
        description=ABOUT_TOUR,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tour.add_argument(
        "notebook",
        nargs="?",
        default=tour_folder.FIRST,
        metavar="NOTEBOOK",
        help=f"which notebook: {', '.join(tour_folder.names())} (default: %(default)s)",
    )
    tour.add_argument(
        "--run",
        action="store_true",
        help="run the notebook to its end, without a browser, and write all that it shows into one HTML file",
    )
    tour.add_argument(
        "--folder",
        type=lambda text: Path(text).expanduser(),
        default=Path(FOLDER),
        metavar="FOLDER",
        help="where the notebooks go (default: ./%(default)s)",
    )
    tour.add_argument(
        "--port", type=_port, metavar="PORT", help="where to listen (default: 8888, or the next free one)"
    )
    tour.add_argument(
        "--ip",
        default=lab.LOCAL,
        metavar="ADDRESS",
        help="the address to listen at: 0.0.0.0 lets other machines in, as a container's needs (default: %(default)s)",
    )
    tour.add_argument("--no-browser", action="store_true", help="print the address and open no browser")
    return parser, tour


def _notebook(parser: argparse.ArgumentParser, text: str) -> str:
    """Return the notebook that is meant by its name or its path."""
    name = Path(text).name.removesuffix(".ipynb")
    if name not in tour_folder.names():
        parser.error(f"there is no notebook {text!r}: choose from {', '.join(tour_folder.names())}")
    return name


def _said(laid: tour_folder.Laid) -> str:
    where = f"The notebooks are in {laid.folder}"
    return f"{where}\nLeft as you saved them: {', '.join(laid.kept)}" if laid.kept else where


def _watch(cell: int, cells: int) -> None:
    same_line = sys.stdout.isatty()
    start, end = ("\r", "\n" if cell == cells else "") if same_line else ("", "\n")
    print(f"{start}Running cell {cell} of {cells}", end=end, flush=True)


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 1 to 65535, or 0 for any that is free")
    return port


def _version() -> str:
    try:
        return metadata.version("dpnotebook")
    except metadata.PackageNotFoundError:  # a checkout that was not installed
        return "(not installed)"

"""A part of the workbench that plans in a thread and shows a card: what the budget planner and the builder share."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from dpnotebook.errors import DPError
from dpnotebook.notebook import cards, models
from dpnotebook.notebook.html import escape, line, quiet
from dpnotebook.notebook.interactive import GONE, display_bundle, display_widget, in_voila, interactive, replace
from dpnotebook.notebook.progress import Progress, watched
from dpnotebook.notebook.workbench.latest import LatestWork

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpnotebook.session.session import Session

NOTHING = "Nothing is planned here yet."
WRONG = "⚠ "  # before what is wrong; what went well has no mark
SLOW = 0.5  # seconds after which planning shows that it works


class NotBought(DPError):
    """What was shown was not bought, for a reason that is said in a sentence."""


class LivePart(ABC):
    """Controls above a card that follows them, as two outputs, so that a saved notebook shows the card.

    Parameters
    ----------
    session
        Who pays.
    again
        The code that makes it again, for whoever finds it without its kernel.
    """

    def __init__(self, session: Session, again: str) -> None:
        self.session = session
        self._again = again
        self._lock = threading.RLock()
        self._running = threading.Lock()
        self._shown: Any = None
        self._controls: Any = None
        self._static: Any = None
        self._stops: list[Callable[[], None]] = []
        self._latest = LatestWork(self._redraw)

    @property
    def widget(self) -> Any:
        """All of it as one widget."""
        self.panel  # noqa: B018  # makes it
        return self._whole

    @property
    def panel(self) -> Any:
        """The controls, as one widget; made when they are first asked for."""
        import ipywidgets as widgets

        with self._lock:
            if self._shown is None:
                self.message, self.progress, self.card = widgets.HTML(), widgets.HTML(), widgets.HTML()
                self.run_button = widgets.Button(
                    description="Run",
                    button_style="primary",
                    layout=widgets.Layout(width="auto", align_self="flex-start"),
                )
                self.run_button.on_click(lambda _: self._clicked())
                self._shown = widgets.VBox([*self._make(), self.run_button, self.progress, self.message])
                self._whole = widgets.VBox([self._shown, self.card])
                self._stops = [self.session.on_change(self.changed), self.session.on_close(self.close)]
                self._redraw()
            return self._shown

    def changed(self) -> None:
        """Plan what the controls say now; they stay free meanwhile."""
        if self._stops:
            self._latest.ask()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the card shows what the controls say; return whether it did in time."""
        return self._latest.wait(seconds)

    def show_in(self, output: Any) -> None:
        """Show the card in an output that is displayed already, or no more in any when None."""
        self.panel  # noqa: B018  # makes it
        with self._lock:
            self._static = output
            replace(output, line(quiet(NOTHING)), NOTHING)  # which stays where there is no card to draw
            self._redraw()

    def say(self, text: str, mark: str = WRONG) -> None:
        """Say in one line what is wrong, or with another mark what is not, or nothing."""
        self.message.value = f'<div role="status">{line(f"{mark}{escape(text)}")}</div>' if text else ""

    def close(self) -> None:
        """Stop following the session, and leave a line of text where the controls were."""
        with self._lock:
            if not self._stops:
                return
            for stop in self._stops:
                stop()
            self._stops = []
            said = "These controls stand still, as their session was closed."
            replace(self._controls, line(quiet(said)), said)
            models.close(self._whole)

    @abstractmethod
    def _make(self) -> list[Any]:
        """Make the controls, from top to bottom."""

    @abstractmethod
    def _card(self) -> tuple[cards.Card, str]:
        """Return the card of what the controls say, and what the button says that it does."""

    @abstractmethod
    def _run(self) -> str:
        """Buy what is shown, unless it costs more than was seen.

        Returns
        -------
        What became of it.

        Raises
        ------
        DPError
            If nothing was bought.
        """

    def _check(self) -> None:  # noqa: B027  # most parts have nothing to check
        """Raise NotBought if what a control says is wrong: then nothing is planned, and nothing is bought."""

    def _redraw(self) -> None:
        with self._lock:
            try:
                with Progress(self._show_progress, after=SLOW) as progress:
                    progress(None, "planning")
                    self._check()
                    card, what = self._card()
            except DPError as error:
                self.say(str(error))
                self.run_button.description = "Run: not possible like this"
                return
            except Exception as error:  # in a thread: it must not go unseen
                self.say(f"not up to date: {type(error).__name__}")
                return
            self.say("")
            self.run_button.description = what
            bundle = cards.as_bundle(card)
            self.card.value = bundle["text/html"]
            replace(self._static, bundle["text/html"], bundle["text/plain"])

    def _clicked(self) -> None:
        # Two clicks can arrive before the first has been served, in ipykernel's subshells even at the same time.
        if not self._running.acquire(blocking=False):
            return
        mark = WRONG
        try:
            self.wait()
            self._check()
            with Progress(self._show_progress) as progress:
                progress(None, "working")
                said, mark = self._run(), ""
        except NotBought as error:
            said = str(error)
        except DPError as error:
            said = f"{type(error).__name__}: {error}"
        except (Exception, KeyboardInterrupt) as error:
            # What an unexpected error says may come from the data: it is not shown.
            said = f"{type(error).__name__}, and no answer. session.history() says what was charged."
        finally:
            self._running.release()
        self._redraw()
        self.say(said, mark)

    def _show_progress(self, html: str, _text: str) -> None:
        self.progress.value = html

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return cards.as_bundle(self._card()[0])

    def __repr__(self) -> str:
        return self._repr_mimebundle_()["text/plain"]

    def _ipython_display_(self) -> None:
        if not interactive():
            display_bundle(self._repr_mimebundle_())
            return
        with watched() as progress:  # the controls, with a bar of their own, are not there before the first plan is
            progress(None, "planning")
            self.panel  # noqa: B018  # makes it
        lost = f"{GONE} The cell is that with {self._again}; nothing that was answered is lost."
        if in_voila():  # which keeps static outputs as they were
            display_widget(self.widget, line(quiet(escape(lost))), lost)
            return
        self._controls = display_widget(self.panel, line(quiet(escape(lost))), "[controls]")
        self._static = display_bundle(self._repr_mimebundle_(), updatable=True)

"""Chromium as tests drive it: the real browser without a window, by the DevTools protocol over two pipes."""

import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_ANSWER_S = 60
_LOWEST = 10
"""Our ends of the pipes lie above the two numbers that the browser wants: 3 to read from, 4 to write to."""
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--window-size=1600,900",
    "--remote-debugging-pipe",
)
Answer = dict[str, Any]


def program() -> str | None:
    """Where Chromium is, or None."""
    return next((path for name in _PROGRAMS if (path := shutil.which(name))), None)


@dataclass(slots=True)
class Browser:
    """One running browser. Every wait has an end."""

    reads: int
    writes: int
    _rest: bytes = b""
    _heard: list[Answer] = field(default_factory=list)
    _asked: Iterator[int] = field(default_factory=lambda: count(1))

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> Answer:
        """One command and its answer; a refusal is a failed assertion."""
        number = next(self._asked)
        told: Answer = {"id": number, "method": method, "params": parameters}
        message = json.dumps(told if session is None else told | {"sessionId": session}).encode() + b"\0"
        while message:
            message = message[os.write(self.writes, message) :]
        answer = self._next(lambda heard: heard.get("id") == number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: Answer = answer["result"]
        return result

    def event(self, method: str) -> Answer:
        """The next event of a kind, also one heard meanwhile."""
        found: Answer = self._next(lambda heard: heard.get("method") == method)["params"]
        return found

    def page(self, address: str) -> "Page":
        """A new page that has loaded."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable", session)
        self.ask("Page.navigate", session, url=address)
        self.event("Page.loadEventFired")
        return Page(browser=self, session=session)

    def _next(self, is_meant: Any) -> Answer:
        """What was heard first and is meant."""
        until_s = time.monotonic() + _ANSWER_S
        while True:
            for place, heard in enumerate(self._heard):
                if is_meant(heard):
                    return self._heard.pop(place)
            self._hear(until_s)

    def _hear(self, until_s: float) -> None:
        ready, _, _ = select.select([self.reads], [], [], max(0.0, until_s - time.monotonic()))
        assert ready, f"Chromium did not answer within {_ANSWER_S} s"
        read = os.read(self.reads, 1 << 20)
        assert read, "Chromium has gone"
        *messages, self._rest = (self._rest + read).split(b"\0")
        self._heard += [json.loads(message) for message in messages]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a browser."""

    browser: Browser
    session: str

    def ask(self, method: str, **parameters: Any) -> Answer:
        """One command to this page."""
        return self.browser.ask(method, self.session, **parameters)

    def value(self, script: str, *, is_click: bool = False) -> Any:
        """What a script evaluates to, its promise kept; `is_click`: as if the user had asked for it."""
        found = self.ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=is_click
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def choose_file(self, script: str, file: Path) -> None:
        """Click on what opens the file dialog, and choose a file in it."""
        self.ask("Page.setInterceptFileChooserDialog", enabled=True)
        self.value(script, is_click=True)
        opened = self.browser.event("Page.fileChooserOpened")
        self.ask("DOM.setFileInputFiles", files=[str(file)], backendNodeId=opened["backendNodeId"])


@contextmanager
def browser(path: str, folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own in a folder; it and every process of its group are gone afterwards."""
    theirs_in, ours_out = _pipe()
    ours_in, theirs_out = _pipe()
    command = [path, f"--user-data-dir={folder}", *_FLAGS, "about:blank"]
    quiet = os.open(os.devnull, os.O_RDWR)
    environment = {**os.environ, "HOME": str(folder)}
    moves = [(os.POSIX_SPAWN_DUP2, end, at) for end, at in ((quiet, 1), (quiet, 2), (theirs_in, 3), (theirs_out, 4))]
    child = os.posix_spawn(path, command, environment, file_actions=moves, setsid=True)
    for each in (theirs_in, theirs_out, quiet):
        os.close(each)
    running = Browser(reads=ours_in, writes=ours_out)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ours_in)
        os.close(ours_out)


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are numbered above those that the browser is given."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _LOWEST) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]

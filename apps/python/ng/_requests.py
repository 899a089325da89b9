"""Requests in flight: answers that are on their way while a program does something else."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections import deque
from typing import (Any, AsyncIterator, Callable, Deque, Dict, Generator, Iterator, List, Optional)

from . import _ng
from ._errors import UsageError
from ._results import Completion, Step


class Request:
    """One or more prompts on their way to an answer. From :meth:`Engine.submit`,
    :meth:`Engine.astream` and :meth:`Engine.agenerate`.

    Wait for its end with ``result()`` or ``await``; go through its steps as they come with ``for`` or
    ``async for``; end it with ``cancel()``, from any thread. What is forgotten is cancelled, too.
    """

    def __init__(self, n: int, many: bool, each: Optional[int]):
        self._flight: Optional[Flight] = None  # from its submission to its end
        self._many = many
        self._each = each  # answers to each prompt
        self._first = 0  # the number of its first request
        self._changed = threading.Condition()
        self._steps: Deque[Step] = deque()
        self._kept: List[List[Step]] = [[] for _ in range(n)]
        self._done: List[Optional[Completion]] = [None] * n
        self._left = n
        self._error: Optional[BaseException] = None
        self._told: List[Callable[[], None]] = []

    # From the flight's thread.

    def _step(self, index: int, fields: Dict[str, Any], keep: bool) -> None:
        step = Step(**{**fields, "request": index})
        with self._changed:
            self._steps.append(step)
            if keep:
                self._kept[index].append(step)
        self._tell()

    def _end(self, index: int, fields: Optional[Dict[str, Any]],
             error: Optional[BaseException]) -> None:
        with self._changed:
            self._left -= 1
            if fields is not None:
                self._done[index] = Completion(**fields)
                self._done[index].steps.extend(self._kept[index])  # type: ignore[union-attr]
            if isinstance(error, (StopIteration, StopAsyncIteration)):  # it is no end (PEP 479)
                error, cause = RuntimeError("a callback raised StopIteration"), error
                error.__cause__ = cause
            self._error = self._error or error
            if self._left == 0:
                self._flight = None
        self._tell()

    def _tell(self) -> None:
        with self._changed:
            told, self._told = self._told, []
            self._changed.notify_all()
        for call in told:
            call()

    # For whoever waits.

    def done(self) -> bool:
        """Whether it has ended, by itself or otherwise."""
        return self._left == 0

    def cancel(self) -> None:
        """Ends it soon, as "interrupted". Any thread; does not wait."""
        flight = self._flight
        if flight is not None:
            flight.cancel(range(self._first, self._first + len(self._done)))

    def result(self, timeout: Optional[float] = None) -> Any:
        """What :meth:`Engine.generate` returns. Raises what ended a request by an error;
        ``TimeoutError`` after so many seconds, when it goes on. After ``cancel()`` completions are
        the answers so far."""
        flight = self._flight
        if flight is not None:
            flight.check_waiting()
        with self._changed:
            if not self._changed.wait_for(self.done, timeout):
                raise TimeoutError(f"the answer is not there after {timeout} s; it goes on")
        return self._result()

    @property
    def completion(self) -> Any:
        """The same as :meth:`result`, of a request that has ended."""
        if not self.done():
            raise UsageError("the request has not ended; wait for result(), or cancel() it")
        return self._result()

    def _result(self) -> Any:
        self._check()
        done: List[Any] = list(self._done)
        if self._each is not None:
            done = [done[start:start + self._each] for start in range(0, len(done), self._each)]
        return done if self._many else done[0]

    def _check(self) -> None:
        """Raises what ended it. REQUIRES: the lock is not held."""
        if self._error is not None:
            _ng.stay_if_python_ends()  # nobody is there any more to catch it
            raise self._error

    def _take(self) -> Optional[Step]:
        """The next step, if it is there. REQUIRES: the lock."""
        return self._steps.popleft() if self._steps else None

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        flight = self._flight
        if flight is not None:
            flight.check_waiting()
        with self._changed:
            self._changed.wait_for(lambda: self._steps or self._left == 0)
            step = self._take()
        if step is None:
            self._check()
            raise StopIteration
        return step

    # The same for asyncio. Who is cancelled while he waits cancels it.

    async def _wait(self, ready: Callable[[], Any]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            future: "asyncio.Future[None]" = loop.create_future()

            def wake() -> None:
                if not future.done():
                    future.set_result(None)

            def tell() -> None:
                try:
                    loop.call_soon_threadsafe(wake)
                except RuntimeError:  # the loop is closed, and nobody waits
                    pass

            with self._changed:
                if ready():
                    return
                self._told.append(tell)
            try:
                await future
            except BaseException:
                self.cancel()
                raise

    def __await__(self) -> Generator[Any, None, Any]:
        yield from self._wait(self.done).__await__()
        return self._result()

    def __aiter__(self) -> AsyncIterator[Step]:
        return self

    async def __anext__(self) -> Step:
        await self._wait(lambda: self._steps or self._left == 0)
        with self._changed:
            step = self._take()
        if step is None:
            self._check()
            raise StopAsyncIteration
        return step

    async def aclose(self) -> None:
        """Cancels it, and waits for its end."""
        self.cancel()
        await self._wait(self.done)

    def __enter__(self) -> "Request":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.cancel()

    def __del__(self) -> None:
        if self._left > 0:
            self.cancel()

    def __repr__(self) -> str:
        state = "ended" if self.done() else "on its way"
        return f"<Request of {len(self._done)} answers, {state}>"


class Flight:
    """The requests in flight of an engine, and the thread that drives them. It is there as long as
    there are some; ``landed`` is called at its end, with its lock."""

    def __init__(self, engine: "_ng.Engine", lock: threading.Lock, landed: Callable[[], None]):
        self._engine = engine
        self._raw = _ng.Requests(engine)
        self._lock = lock
        self._landed = landed
        self._requests: Dict[int, "weakref.ref[Request]"] = {}
        self._keep: Dict[int, bool] = {}
        self._next = 0  # the number of the next one
        self._thread = threading.Thread(target=self._work, name="ng requests", daemon=True)
        self._started = False
        self._process = os.getpid()

    def submit(self, request: Request, requests: List[Dict[str, Any]], asked: Dict[str, Any],
               keep: bool) -> None:
        """REQUIRES: the lock is held."""
        numbers = range(self._next, self._next + len(requests))
        self._next = numbers.stop
        # Nobody is told of a request that is forgotten.
        self._requests.update(dict.fromkeys(numbers, weakref.ref(request)))
        self._keep.update(dict.fromkeys(numbers, keep))
        request._first, request._flight = numbers.start, self
        try:
            self._raw.submit(requests, asked, numbers.start)
        except BaseException:
            request._flight = None
            for number in numbers:
                del self._requests[number], self._keep[number]
            raise
        if not self._started:
            self._started = True
            self._thread.start()

    def cancel(self, numbers: Any) -> None:
        for number in numbers:
            completion = self._raw.cancel(number)
            if completion is not None:
                self._on_event(number, None, completion, None)

    def check_waiting(self) -> None:
        """Raises where a request would be waited for in vain."""
        if self._engine.is_within():
            raise UsageError("what the engine calls must not wait for it")
        if self._process != os.getpid():
            raise UsageError("the request is of the process that this one was forked from")

    def _on_event(self, number: int, step: Optional[Dict[str, Any]],
                  completion: Optional[Dict[str, Any]], error: Optional[BaseException]) -> None:
        request = self._requests[number]()
        if step is not None:
            if request is not None:
                request._step(number - request._first, step, self._keep[number])
            return
        del self._requests[number], self._keep[number]
        if request is not None:
            request._end(number - request._first, completion, error)

    def _work(self) -> None:
        while True:
            if not self._raw.drive(self._on_event):
                time.sleep(0.01)  # until the stream is closed that was opened before
            with self._lock:
                if not self._raw.waiting():
                    self._landed()
                    return

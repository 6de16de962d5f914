"""Processes that share out a measurement.

Why it is here: one process leaves half of two cores idle for a quarter of an hour. Each opens what
it needs once and keeps one core busy with one thread, so figures do not depend on how many there
are; and none outlives the one that started it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import Any, TypeVar

import torch
from threadpoolctl import threadpool_limits

__all__ = ["share_out"]

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")
_Place = TypeVar("_Place")


def share_out(
    opens: Callable[[_Place], Callable[[_Item], _Found]],
    place: _Place,
    items: Sequence[_Item],
    processes: int,
) -> Iterator[tuple[_Item, _Found]]:
    """What is made of each item, as it comes; begun in the order of ``items``.

    Args:
        opens: called with ``place`` once in each of them: gives what works on an item. A function
            or a class of a module, as are all that travel to another process.
        place: where it finds what it needs.
        items: what to do.
        processes: how many; 0 for this one alone.
    """
    if not items:
        return
    if not processes:
        work = opens(place)
        yield from ((each, work(each)) for each in items)
        return
    context, starting = get_context("spawn"), (opens, place)
    with ProcessPoolExecutor(min(processes, len(items)), context, _start, starting) as pool:
        try:
            waiting: dict[Future[_Found], _Item] = {pool.submit(_do, each): each for each in items}
            for each in as_completed(waiting):
                yield waiting[each], each.result()
        except BaseException:  # nobody waits for what others are at
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                process.terminate()
            raise


_work: Callable[[Any], Any] | None = None
"""Of a process that was started here."""


def _start(opens: Callable[[_Place], Callable[[Any], Any]], place: _Place) -> None:
    global _work
    torch.set_num_threads(1)
    threadpool_limits(1)  # numpy's products: another number of threads rounds them otherwise
    parent = parent_process()
    if parent is not None:  # killed, it cannot tell its workers, who would wait for ever
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    _work = opens(place)


def _do(item: Any) -> Any:
    assert _work is not None
    return _work(item)


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)

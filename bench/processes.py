"""Run the items of a measurement in several processes.

Each process opens its data once and runs one thread on one core, so figures do not depend on the
number of processes. Workers end with the process that started them.
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
    """Yield the result of each item as it finishes; items start in the order of ``items``.

    Args:
        opens: called with ``place`` once in each process; returns the function that works on an
            item. It must be a function or class of a module, as must all arguments that travel to
            another process.
        place: the settings that ``opens`` needs.
        items: the items to work on.
        processes: number of processes; 0 runs everything in this one.
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
        except BaseException:  # do not wait for the other items
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
    if parent is not None:  # a killed parent cannot stop its workers
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    _work = opens(place)


def _do(item: Any) -> Any:
    assert _work is not None
    return _work(item)


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)

"""What a step is given depends on the seed and the step alone."""

from __future__ import annotations

from sottovoce.cloud.training.fit import Plan, batches, schedule


def plan(seed: int = 0, epochs: int = 3, rows: int = 20) -> Plan:
    return Plan(
        range(rows),
        [3 + i % 5 for i in range(rows)],
        size=8,
        epochs=epochs,
        least_epochs=2,
        least_steps=50,
        seed=seed,
        warmup=0.1,
    )


def test_batches_hold_every_row_once_and_lie_near_in_length() -> None:
    lengths = [3 + (i * 7) % 40 for i in range(64)]
    made = batches(range(64), lengths, 8, seed=0, epoch=0)
    assert sorted(i for batch in made for i in batch) == list(range(64))
    assert max(max(lengths[i] for i in b) - min(lengths[i] for i in b) for b in made) <= 10
    assert batches(range(64), lengths, 8, seed=0, epoch=0) == made
    assert batches(range(64), lengths, 8, seed=0, epoch=1) != made


def test_the_rate_rises_then_falls_and_never_reaches_zero() -> None:
    rates = [schedule(step, 100, 0.1) for step in range(100)]
    assert rates.index(max(rates)) == 9
    assert max(rates) == 1
    assert rates[-1] > 0


def test_every_epoch_sees_every_row_and_says_where_it_ends() -> None:
    made = plan()
    assert (made.epochs, made.steps) == (3, 9)
    for epoch in range(3):
        steps = range(3 * epoch, 3 * epoch + 3)
        assert sorted(i for step in steps for i in made.rows(step)) == list(range(20))
        assert {made.epoch(step) for step in steps} == {epoch}
    assert [done for done in range(1, 10) if made.ends_epoch(done)] == [3, 6, 9]


def test_a_plan_taken_up_midway_goes_on_as_it_was() -> None:
    whole, later = plan(seed=4), plan(seed=4)
    expected = [(whole.rows(s), whole.rate(s)) for s in range(9)]
    assert [(later.rows(s), later.rate(s)) for s in (7, 8, 2)] == [expected[s] for s in (7, 8, 2)]
    assert plan(seed=5).rows(0) != whole.rows(0)


def test_small_jobs_get_more_epochs() -> None:
    assert plan(epochs=0).epochs == 17  # 50 steps, 3 an epoch
    assert plan(epochs=0, rows=800).epochs == 2

"""Compare polling schedules by simulation: how soon the end of a job is noticed, and with how many requests.

Each job is polled separately. A schedule returns the wait before the next lookup. There are 1,000 jobs with
a fixed seed. Run times are log-uniform from 1 s to 10 h. A third of the jobs start at once; the others are
queued, log-uniform from 1 s to 2 h. In a second, harder mix, all jobs are queued, uniformly up to 2 h. The
simulation neither sleeps nor makes requests, so the figures are the same on every machine.

Promises: The mean delay is below 40 % of the run on both mixes, with at most twice the requests of the
schedule of 1e22e41 on the first. A job of 1 h without a queue takes fewer than 180 requests, and its end is
noticed within 30 s. The end of a job of 0.2 s is noticed in less than 0.5 s, and that of a job of less than
a minute within 15 % of its length. A queued job is looked up at least every 10 s. If a promise is broken,
the exit code is 1. `--jobs N` shortens the run.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

from luigi_pai.api.polling import Polling, next_wait

JOBS = 1000
SEED = 7
REQUEST = 0.005  # seconds per lookup
OTHER_REQUESTS = (
    4  # per job: the login, the lookup before the submission, the submission, the lookup after it
)
MINUTE, HOUR = 60.0, 3600.0
LONGEST_RUN, LONGEST_QUEUE = 36000.0, 7200.0
SHORTEST, LONGEST, LONGEST_QUEUED = 0.1, 30.0, 10.0
JITTER = 0.1

Wait = Callable[[float], float]
"""A function from an age in seconds to the seconds before the next lookup."""


@dataclass(frozen=True)
class Schedule:
    """The waits between lookups.

    Attributes:
        name: The label of its row.
        queued: The wait, by the time since the submission.
        running: The wait, by the time since RUNNING was first seen.
        by_submission: Whether ``running`` also takes the time since the submission.
    """

    name: str
    queued: Wait
    running: Wait
    by_submission: bool = False


@dataclass(frozen=True)
class Job:
    """The seconds that a simulated job is queued and runs."""

    queued: float
    runs: float


def follow(schedule: Schedule, job: Job, seed: int) -> tuple[int, float]:
    """Return the number of lookups until the end is noticed, and the delay in seconds."""
    random.seed(seed)
    start, end = job.queued, job.queued + job.runs
    now, lookups, running_since = 0.0, 0, None
    while True:
        if running_since is None:
            now += schedule.queued(now)
        else:
            now += schedule.running(now if schedule.by_submission else now - running_since)
        lookups += 1
        if now >= end:
            return lookups, now + REQUEST - end
        if now >= start and running_since is None:
            running_since = now
        now += REQUEST


# ---------------------------------------------------------------- the schedules


def bounded(wait: float, shortest: float, longest: float) -> float:
    """Return a wait that varies by up to a tenth, but is at most ``longest``."""
    return min(min(max(wait, shortest), longest) * random.uniform(1 - JITTER, 1 + JITTER), longest)


def of_1e22e41(age: float) -> float:
    """Return the wait of that commit: a tenth of the age with its queue, 0.5 s to 30 s, plus jitter."""
    return min(max(age / 10, 0.5), 30.0) * random.uniform(1 - JITTER, 1 + JITTER)


def of_luigi_pai() -> Schedule:
    """Return the schedule of the package."""
    polling = Polling(SHORTEST, LONGEST)
    return Schedule(
        "luigi_pai",
        lambda age: next_wait(age, polling, queued=True),
        lambda age: next_wait(age, polling, queued=False),
    )


def candidate(name: str, queued: Wait, running: Wait) -> Schedule:
    """Return a schedule with two growth functions and the bounds and jitter of the package."""
    return Schedule(
        name,
        lambda age: bounded(queued(age), SHORTEST, LONGEST_QUEUED),
        lambda age: bounded(running(age), SHORTEST, LONGEST),
    )


BASE = Schedule("luigi_pai 1e22e41: age/10", of_1e22e41, of_1e22e41, by_submission=True)
CONTRIB = Schedule("luigi.contrib.pai: every 5 s", lambda age: 5.0 if age else 0.0, lambda _: 5.0)


def a_quarter(age: float) -> float:
    return age / 4


def ninth_sixth(age: float) -> float:
    return age / (9 if age < MINUTE else 6)


CANDIDATES = (
    candidate("q/4 | r/10", a_quarter, lambda age: age / 10),
    candidate("q/4 | r/10, r/6", a_quarter, lambda age: age / (10 if age < MINUTE else 6)),
    candidate("q/4 | r/10, r/3", a_quarter, lambda age: age / (10 if age < MINUTE else 3)),
    candidate("q/4 | r/9 + (r-60)/9", a_quarter, lambda age: age / 9 + max(0.0, age - MINUTE) / 9),
    candidate("q/4 | r/9", a_quarter, lambda age: age / 9),
    candidate("q/4 | r/8", a_quarter, lambda age: age / 8),
    candidate("q/4 | sqrt(r)/2", a_quarter, lambda age: math.sqrt(age) / 2),
    candidate("q/4 | sqrt(r)", a_quarter, math.sqrt),
    candidate("q/4 | 1.5 sqrt(r)", a_quarter, lambda age: math.sqrt(age) * 1.5),
    candidate("q/4 | min(r/10, sqrt(r))", a_quarter, lambda age: min(age / 10, math.sqrt(age))),
    candidate("q/4 | min(r/9, 1.5 sqrt(r))", a_quarter, lambda age: min(age / 9, math.sqrt(age) * 1.5)),
    candidate("q/20 | r/9, r/6", lambda age: age / 20, ninth_sixth),
    candidate("q/10 | r/9, r/6", lambda age: age / 10, ninth_sixth),
    candidate("q/5 | r/9, r/6", lambda age: age / 5, ninth_sixth),
    candidate("q/3 | r/9, r/6", lambda age: age / 3, ninth_sixth),
    candidate("sqrt(q)/4 | r/9, r/6", lambda age: math.sqrt(age) / 4, ninth_sixth),
    candidate("sqrt(q)/2 | r/9, r/6", lambda age: math.sqrt(age) / 2, ninth_sixth),
    candidate("sqrt(q) | r/9, r/6", math.sqrt, ninth_sixth),
    candidate("every 10 s | r/9, r/6", lambda age: LONGEST_QUEUED if age else 0.0, ninth_sixth),
    candidate("every 10 s | sqrt(r)", lambda age: LONGEST_QUEUED if age else 0.0, math.sqrt),
)


# ---------------------------------------------------------------- the jobs


def log_uniform(rng: random.Random, least: float, most: float) -> float:
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def mixed(number: int) -> list[Job]:
    """Return jobs of which a third are not queued, and the others are, log-uniformly from 1 s to 2 h."""
    rng = random.Random(SEED)
    return [
        Job(
            0.0 if rng.random() < 1 / 3 else log_uniform(rng, 1, LONGEST_QUEUE),
            log_uniform(rng, 1, LONGEST_RUN),
        )
        for _ in range(number)
    ]


def all_queued(number: int) -> list[Job]:
    """Return jobs that are queued uniformly up to 2 h."""
    rng = random.Random(SEED)
    return [Job(rng.uniform(0, LONGEST_QUEUE), log_uniform(rng, 1, LONGEST_RUN)) for _ in range(number)]


def short(number: int) -> list[Job]:
    """Return jobs of 1 s to a minute that are not queued."""
    rng = random.Random(SEED)
    return [Job(0.0, log_uniform(rng, 1, MINUTE)) for _ in range(number)]


# ---------------------------------------------------------------- the figures


@dataclass(frozen=True)
class Figures:
    """The figures of a schedule on a mix of jobs, in seconds.

    Attributes:
        delay: The mean delay.
        relative: The mean of delay / run of each job.
        requests: The mean number of lookups.
        worst: The longest delay.
    """

    delay: float
    relative: float
    requests: float
    worst: float


@dataclass(frozen=True)
class Single:
    """The figures of a schedule on single jobs without a queue, each with 100 seeds.

    Attributes:
        hour_requests: The most requests of a job of 1 h, including those before the first wait.
        hour_delay: Its longest delay in seconds.
        blink: The longest time until the end of a job of 0.2 s is noticed, from its submission.
        short: The longest delay of jobs of less than a minute, relative to the run.
        short_mean: The mean of these delays.
    """

    hour_requests: int
    hour_delay: float
    blink: float
    short: float
    short_mean: float


def figures(schedule: Schedule, jobs: list[Job]) -> Figures:
    followed = [follow(schedule, job, seed) for seed, job in enumerate(jobs)]
    delays = [delay for _, delay in followed]
    return Figures(
        statistics.mean(delays),
        statistics.mean(delay / job.runs for delay, job in zip(delays, jobs, strict=True)),
        statistics.mean(lookups for lookups, _ in followed),
        max(delays),
    )


def single(schedule: Schedule) -> Single:
    hours = [follow(schedule, Job(0.0, HOUR), seed) for seed in range(100)]
    blinks = [0.2 + follow(schedule, Job(0.0, 0.2), seed)[1] for seed in range(100)]
    shares = [follow(schedule, job, seed)[1] / job.runs for seed, job in enumerate(short(300))]
    return Single(
        max(lookups for lookups, _ in hours) + OTHER_REQUESTS,
        max(delay for _, delay in hours),
        max(blinks),
        max(shares),
        statistics.mean(shares),
    )


def print_mix(title: str, jobs: list[Job], schedules: tuple[Schedule, ...]) -> dict[str, Figures]:
    print(f"{title}, {len(jobs)} jobs")
    print(f"{'':30} {'delay s':>8} {'of run':>7} {'worst s':>8} {'requests':>9} {'of 1e22e41':>11}")
    table = {schedule.name: figures(schedule, jobs) for schedule in schedules}
    base = table[BASE.name].requests
    for name, row in table.items():
        print(
            f"{name:30} {row.delay:8.2f} {row.relative:7.1%} {row.worst:8.1f}"
            f" {row.requests:9.1f} {row.requests / base:11.2f}"
        )
    print()
    return table


def print_single(schedules: tuple[Schedule, ...]) -> dict[str, Single]:
    print("Jobs without a queue: the most of 100 (the last two columns: of 300 jobs of 1 s to 60 s)")
    print(f"{'':30} {'1 h requests':>13} {'late s':>7} {'0.2 s after s':>14} {'short late':>11} {'mean':>6}")
    table = {schedule.name: single(schedule) for schedule in schedules}
    for name, row in table.items():
        print(
            f"{name:30} {row.hour_requests:13} {row.hour_delay:7.1f} {row.blink:14.2f}"
            f" {row.short:11.1%} {row.short_mean:6.1%}"
        )
    print()
    return table


def longest_queued_wait(schedule: Schedule) -> float:
    """Return the longest wait of a schedule while a job is queued for up to 2 h."""
    random.seed(SEED)
    return max(schedule.queued(age) for age in range(0, int(LONGEST_QUEUE), 3))


def broken(schedule: Schedule, mixes: list[dict[str, Figures]], alone: Single) -> list[str]:
    """Return the promises that a schedule breaks."""
    bounds = [
        ("requests of a job of 1 h", alone.hour_requests, 179),
        ("delay of a job of 1 h in s", alone.hour_delay, LONGEST + 2 * REQUEST),
        ("a job of 0.2 s noticed after s", alone.blink, 0.5),
        ("delay of jobs of less than a minute, of the run", alone.short, 0.15),
        ("wait while queued in s", longest_queued_wait(schedule), LONGEST_QUEUED),
    ]
    bounds += [("mean delay of the run", mix[schedule.name].relative, 0.4) for mix in mixes]
    bounds.append(
        ("requests of 1e22e41", mixes[0][schedule.name].requests / mixes[0][BASE.name].requests, 2.0)
    )
    return [f"{what}: {value:.2f}, promised {most:.2f}" for what, value, most in bounds if value > most]


def compare(number: int, *, all_candidates: bool = True) -> list[str]:
    """Print the tables of that many jobs, and return the broken promises.

    ``all_candidates=False`` omits the rejected candidates.
    """
    ours = of_luigi_pai()
    schedules = (CONTRIB, BASE, ours) + (CANDIDATES if all_candidates else ())
    if all_candidates:
        print(
            "q: seconds since the submission; r: since RUNNING was first seen; r/9, r/6: a sixth after 60 s\n"
        )
    mixes = [
        print_mix("A third not queued, else 1 s to 2 h (log-uniform)", mixed(number), schedules),
        print_mix("All queued for up to 2 h (uniform)", all_queued(number), schedules),
    ]
    alone = print_single(schedules)
    return broken(ours, mixes, alone[ours.name])


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare polling schedules by simulation.")
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs to simulate (default: %(default)s)")
    failures = compare(parser.parse_args().jobs)
    for failure in failures:
        print(f"broken: {failure}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())

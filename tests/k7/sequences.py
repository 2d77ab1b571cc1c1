#!/usr/bin/env python3
"""Prints sequences of k7.py and what it answers, each as one line of JSON.  usage: sequences.py SEED COUNT

First those that k7.py has, then COUNT random ones. The health of the steps is a text: "-" is not known yet.
`tests/k7/sequences.py 7 300 > tests/fixtures/k7/sequences.jsonl` writes the fixture of the fast tests.
"""
import json
import random
import sys

import k7

PAUSES = (0.02, 0.07, 0.3, 0.5, 0.6, 1, 1.9, 2, 2.1, 5, 9, 15, 28, 29.9, 30, 30.1, 45)


def print_sequence(name, events, count, end, is_running):
    text = [(time, "".join(one or "-" for one in health)) for time, health in events]
    answers = k7.run([(time, list(health)) for time, health in events], count, end, is_running)
    print(json.dumps({"name": name, "events": text, "end": end, "is_running": is_running, "answers": answers}))


def random_events(source, count):
    now, events = 0, []
    health = [source.choice("AADE") for _ in range(count)]
    for _ in range(source.randint(1, 9)):
        events.append((now, list(health)))
        now = round(now + source.choice(PAUSES), 2)
        for _ in range(source.choice((1, 1, 1, 2))):
            health[source.randrange(count)] = source.choice("AADE")
    return events, round(now + 40, 2)


if __name__ == "__main__":
    seed, wanted = map(int, sys.argv[1:])
    for name, events, count, end, is_running, _ in k7.SEQUENCES:
        print_sequence(name, events, count, end, is_running)
    source = random.Random(seed)
    for number in range(wanted):
        count = source.choice((2, 2, 3))
        events, end = random_events(source, count)
        print_sequence(f"random {number}", events, count, end, source.random() < 0.5)

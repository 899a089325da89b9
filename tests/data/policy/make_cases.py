"""Which tokens the shipped policies keep, by plain definitions: python3 make_cases.py > cases.json

The keys and values come of a formula that the test repeats (tests/plugins/policy/policies_test.cc). Scores are
computed here as the papers have them, where plugins/policy/<name>/<name>.h says nothing else.
"""
import json
import math

LAG, SINKS = 8, 4
QUERIES, KERNEL = 6, 5


def number(row, dim, salt):
    """A number in [-0.5, 0.5) that a float holds exactly."""
    mixed = (row * 7919 + dim * 104729 + salt * 31 + 1) * 2654435761 % 2**32
    mixed ^= mixed >> 15
    mixed = mixed * 2246822519 % 2**32
    return (mixed >> 8) / 2**24 - 0.5


def matrix(n, width, salt):
    return [[number(i, d, salt) for d in range(width)] for i in range(n)]


def norm(row):
    return math.sqrt(sum(x * x for x in row))


def window(keys, values):
    return list(range(len(keys)))


def knorm(keys, values):
    return [-norm(key) for key in keys]


def keydiff(keys, values):
    units = [[x / norm(key) for x in key] for key in keys]
    anchor = [sum(column) / len(keys) for column in zip(*units)]
    return [-sum(a * b for a, b in zip(key, anchor)) / (norm(key) * norm(anchor)) for key in keys]


def shares(part, behind):
    least = [min(column) for column in zip(*behind)]
    most = [max(column) for column in zip(*behind)]
    deviations = []
    for row in part:
        scaled = [(x - a) / (b - a) if b > a else 0.0 for x, a, b in zip(row, least, most)]
        mean = sum(scaled) / len(scaled)
        deviations.append(math.sqrt(sum((x - mean) ** 2 for x in scaled) / (len(scaled) - 1)))
    powers = [math.exp(x) for x in deviations]
    return [x / sum(powers) for x in powers]


def lagkv(keys, values):
    n = len(keys)
    if n < SINKS + 2 * LAG:
        return [1.0 if i < SINKS else (i - SINKS) / (n - SINKS) for i in range(n)]
    scores = [1.0] * n
    begin = SINKS
    while begin + 2 * LAG <= n:
        mid, end = begin + LAG, begin + 2 * LAG
        both = [(a + b) / 2 for a, b in zip(shares(keys[begin:mid], keys[mid:end]),
                                            shares(values[begin:mid], values[mid:end]))]
        order = sorted(range(LAG), key=lambda i: (both[i], -i))
        for rank, i in enumerate(order):
            scores[begin + i] = rank / LAG
        begin = mid
    return scores


def attention(n, salt):
    """What the tokens got: numbers in [0, 1)."""
    return [number(i, 0, salt + 200) + 0.5 for i in range(n)]


def observed(attended):
    return attended


def observed_mean(attended):
    return [x / (len(attended) - i) for i, x in enumerate(attended)]


def tova(attended):
    return attended


def snapkv(attended, pool=lambda near: sum(near) / KERNEL):
    n = len(attended) - QUERIES
    side = KERNEL // 2
    return [pool(attended[max(0, i - side):min(n, i + side + 1)]) for i in range(n)] + [math.inf] * QUERIES


def snapkv_max(attended):
    return snapkv(attended, max)


def kept(scores, n_kept):
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    return sorted(order[:n_kept])


def main():
    cases = []
    by_attention = (observed, observed_mean, tova, snapkv, snapkv_max)
    for policy in (window, knorm, keydiff, lagkv) + by_attention:
        for n, width, value_width, salt in ((61, 8, 8, 1), (19, 16, 12, 2), (130, 6, 10, 3)):
            keys, values = matrix(n, width, salt), matrix(n, value_width, salt + 100)
            scores = policy(attention(n, salt)) if policy in by_attention else policy(keys, values)
            cases.append({"policy": policy.__name__, "n": n, "head_dim": width, "value_dim": value_width,
                          "salt": salt, "kept": {str(k): kept(scores, k) for k in (1, n // 4, n // 2, 3 * n // 4)}})
    lines = ",\n".join(json.dumps(case) for case in cases)
    print('{"lag": %d, "sinks": %d, "cases": [\n%s\n]}' % (LAG, SINKS, lines))


main()

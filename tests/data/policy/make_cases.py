"""Which tokens the shipped policies keep, by plain definitions: python3 make_cases.py > cases.json

The keys and values come of a formula that the test repeats (tests/plugins/policy/policies_test.cc). Scores are
computed here as the papers have them, where plugins/policy/<name>/<name>.h says nothing else.
"""
import json
import math

LAG, SINKS = 8, 4
QUERIES, KERNEL = 6, 5
FUTURE = 20


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


def transposed(rows):
    return [list(column) for column in zip(*rows)]


def times(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def mean_rotation(width, begin, count, interleaved):
    """The mean of the matrices that rotate to `count` positions from `begin` on."""
    mean = [[0.0] * width for _ in range(width)]
    for position in range(begin, begin + count):
        for pair in range(width // 2):
            a, b = (2 * pair, 2 * pair + 1) if interleaved else (pair, width // 2 + pair)
            angle = position * 100.0 ** (-pair / (width // 2))
            for i, j, x in ((a, a, math.cos(angle)), (a, b, -math.sin(angle)), (b, a, math.sin(angle)),
                            (b, b, math.cos(angle))):
                mean[i][j] += x / count
    return mean


def expected_attention(keys, values, salt, interleaved=False):
    n, width = len(keys), len(keys[0])
    rotation = mean_rotation(width, n, FUTURE, interleaved)
    scores = [0.0] * n
    for head in range(2):
        queries = [[4.0 * x for x in row] for row in matrix(n, width, salt + 300 + head)][SINKS:]
        mean = [sum(column) / len(queries) for column in zip(*queries)]
        centred = [[x - m for x, m in zip(row, mean)] for row in queries]
        covariance = [[x / len(queries) for x in row] for row in times(transposed(centred), centred)]
        mean = times([mean], transposed(rotation))[0]
        covariance = times(times(rotation, covariance), transposed(rotation))
        scale = 1.0 / math.sqrt(width)
        weights = [math.exp(scale * sum(x * m for x, m in zip(key, mean)) +
                            scale * scale / 2 * times(times([key], covariance), transposed([key]))[0][0])
                   for key in keys[SINKS:]]
        for i, weight in enumerate(weights):
            scores[SINKS + i] += weight / sum(weights) / 2
    return [math.inf] * SINKS + [(score + 0.001) * norm(value)
                                 for score, value in zip(scores[SINKS:], values[SINKS:])]


def expected_attention_interleaved(keys, values, salt):
    return expected_attention(keys, values, salt, interleaved=True)


def kept(scores, n_kept):
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    return sorted(order[:n_kept])


def main():
    cases = []
    by_attention = (observed, observed_mean, tova, snapkv, snapkv_max)
    by_queries = (expected_attention, expected_attention_interleaved)
    for policy in (window, knorm, keydiff, lagkv) + by_attention + by_queries:
        for n, width, value_width, salt in ((61, 8, 8, 1), (19, 16, 12, 2), (130, 6, 10, 3)):
            keys, values = matrix(n, width, salt), matrix(n, value_width, salt + 100)
            if policy in by_attention:
                scores = policy(attention(n, salt))
            elif policy in by_queries:
                scores = policy(keys, values, salt)
            else:
                scores = policy(keys, values)
            cases.append({"policy": policy.__name__, "n": n, "head_dim": width, "value_dim": value_width,
                          "salt": salt, "kept": {str(k): kept(scores, k) for k in (1, n // 4, n // 2, 3 * n // 4)}})
    lines = ",\n".join(json.dumps(case) for case in cases)
    print('{"lag": %d, "sinks": %d, "cases": [\n%s\n]}' % (LAG, SINKS, lines))


main()

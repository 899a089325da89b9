'use strict';
// From the bytes of a head to the levels of pixels. No array of T x T is ever made: each row of pixels
// reads its part of the triangle.

// The first element of each pixel's part, when `count` elements from `start` on lie on `pixels` pixels: [pixels + 1].
function parts(start, count, pixels) {
  return Int32Array.from({length: pixels + 1}, (_, x) => start + Math.floor(x * count / pixels));
}

const endOf = (bounds, x) => Math.max(bounds[x + 1], bounds[x] + 1);

// The strongest level of each pixel of a row of them, which holds the queries first..last - 1. `b` is null, or the
// second run's bytes; then the levels are those of the difference.
function levelsOfRow(a, b, [first, last], columns, out) {
  const width = out.length;
  const levels = b ? differenceLevels() : null;
  out.fill(kOutside);
  for (let query = first; query < last; ++query) {
    const row = rowStart(query);
    for (let x = 0; x < width && columns[x] <= query; ++x) {
      const end = Math.min(endOf(columns, x), query + 1);
      let strongest = Math.abs(out[x]) < kOutside ? out[x] : 0;
      let key = columns[x];
      if (state.first && key === 0) {
        if (end === 1) {
          out[x] = kHidden;
          continue;
        }
        key = 1;
      }
      if (levels) {
        for (; key < end; ++key) {
          const level = levels[a[row + key] << 8 | b[row + key]];
          if (Math.abs(level) > Math.abs(strongest)) strongest = level;
        }
      } else {
        for (; key < end; ++key) if (a[row + key] > strongest) strongest = a[row + key];
      }
      out[x] = strongest;
    }
  }
}

// Fills `levels` [height, width] with the part of a head that `box` {query, key, size} says, and returns the
// largest absolute level.
function fillLevels(a, b, box, width, levels) {
  const height = levels.length / width;
  const rows = parts(box.query, box.size, height);
  const columns = parts(box.key, box.size, width);
  let largest = 0;
  for (let y = 0; y < height; ++y) {
    if (y > 0 && rows[y] === rows[y - 1] && endOf(rows, y) === endOf(rows, y - 1)) {
      levels.copyWithin(y * width, (y - 1) * width, y * width);
      continue;
    }
    const out = levels.subarray(y * width, (y + 1) * width);
    levelsOfRow(a, b, [rows[y], endOf(rows, y)], columns, out);
    for (let x = 0; x < width; ++x) {
      const size = Math.abs(out[x]);
      if (size > largest && size < kOutside) largest = size;
    }
  }
  return largest;
}

// The strongest pair among queries and keys, as the pixel that holds them shows it: {query, key}, or null
// where no query of them reads a key of them.
function strongestPair(a, b, [queryFirst, queryLast], [keyFirst, keyLast]) {
  const levels = b ? differenceLevels() : null;
  let best = -1;
  let pair = null;
  for (let query = queryFirst; query < queryLast; ++query) {
    for (let key = keyFirst; key < keyLast && key <= query; ++key) {
      if (state.first && key === 0) continue;
      const at = rowStart(query) + key;
      const level = levels ? Math.abs(levels[a[at] << 8 | b[at]]) : a[at];
      if (level > best) {
        best = level;
        pair = {query, key};
      }
    }
  }
  return pair;
}

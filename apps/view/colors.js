'use strict';
// The colours of attention: one table from level to pixel, made again when the theme or the range changes.

const ramps = {
  light: ['#f3f5f9', '#c9d9ee', '#86aede', '#3f78c4', '#1b4690', '#081d4a'],
  dark: ['#171b24', '#1f3a63', '#2c66a6', '#4b9bcc', '#a3d6df', '#fff6cf'],
};
const signed = {
  light: ['#0b4f9e', '#5b9bd8', '#f1f2f4', '#e58a4e', '#a63a06'],
  dark: ['#8cc8ff', '#2f6fb0', '#1a1d24', '#b45a1e', '#ffb27a'],
};

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const themeNow = () => state.theme === 'system' ? (prefersDark.matches ? 'dark' : 'light') : state.theme;

// The value of a custom property of the style sheet, as the theme has it. It is asked for once a theme: a style
// that is read makes the browser work out all that has changed before.
const swatch = make('span', {hidden: ''});
document.body.append(swatch);
const themeColors = {light: new Map(), dark: new Map()};
function themeColor(name) {
  const known = themeColors[themeNow()];
  if (!known.has(name)) {
    swatch.style.color = `var(--${name})`;
    known.set(name, getComputedStyle(swatch).color);
  }
  return known.get(name);
}

const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const pixelOf = ([red, green, blue]) => (255 << 24 | blue << 16 | green << 8 | red) >>> 0;  // little endian

// The colour at `t` in 0..1 along a ramp, as [red, green, blue].
function along(ramp, t) {
  const place = Math.max(0, Math.min(1, t)) * (ramp.length - 1);
  const i = Math.min(Math.floor(place), ramp.length - 2);
  const [a, b] = [channels(ramp[i]), channels(ramp[i + 1])];
  return a.map((value, c) => Math.round(value + (b[c] - value) * (place - i)));
}

// Levels: -255..255 are bytes (negative ones only in differences), and these are no values:
const kHidden = -256;
const kOutside = 256;

// Where a probability lies between the lowest one that has a colour and `top`: 0..1.
function placeOf(p, top) {
  const low = Math.min(10 ** state.floor, top / 10);
  return p <= low ? 0 : Math.min(1, Math.log(p / low) / Math.log(top / low));
}

// [513]: the pixel of each level, at level + 256.
function makePalette(isSigned, top) {
  const theme = themeNow();
  const palette = new Uint32Array(513);
  for (let level = -255; level <= 255; ++level) {
    const place = placeOf(probabilities[Math.abs(level)], top);
    palette[level + 256] = pixelOf(isSigned ? along(signed[theme], 0.5 + 0.5 * Math.sign(level) * place)
                                            : along(ramps[theme], place));
  }
  const [background, hidden] = theme === 'dark' ? ['#0f1218', '#262b36'] : ['#ffffff', '#dfe3ea'];
  palette[kOutside + 256] = pixelOf(channels(background));
  palette[kHidden + 256] = pixelOf(channels(hidden));
  return palette;
}

// The level of the difference of two bytes, at a << 8 | b: [65536]. It is the byte of |p(b) - p(a)|, with its sign.
// Bytes that are neighbours may stand for the same probability: their difference has the level 0.
let differences = null;
function differenceLevels() {
  if (differences) return differences;
  differences = new Int16Array(65536);
  const {min, steps} = attention.scale;
  const step = -Math.log(min) / (steps - 1);
  for (let a = 0; a < 256; ++a) {
    for (let b = 0; b < 256; ++b) {
      const difference = probabilities[b] - probabilities[a];
      if (Math.abs(a - b) <= 1 || Math.abs(difference) < min) continue;
      const byte = Math.min(255, 1 + Math.round(Math.log(Math.abs(difference) / min) / step));
      differences[a << 8 | b] = Math.sign(difference) * byte;
    }
  }
  return differences;
}

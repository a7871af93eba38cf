// Values: unpacked, pooled, painted and put into words; nothing here knows the page.

const halves = new Float32Array(65536); // what each 16-bit float means
for (let bits = 0; bits < 65536; bits++) {
  const exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const size = exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction;
  halves[bits] = bits >> 15 ? -size : size;
}

// From base64 of deflated bytes, all high ones before all low ones, to so many numbers.
async function unpack(base64, count) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place++) bytes[place] = text.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const values = new Float32Array(count);
  for (let place = 0; place < count; place++) values[place] = halves[(planes[place] << 8) | planes[count + place]];
  return values;
}

// At most `most` cells along each side, each the value furthest from zero, so that no strong one is lost.
function pool(values, high, wide, most) {
  const down = Math.ceil(high / most), across = Math.ceil(wide / most);
  if (down === 1 && across === 1) return { values, high, wide };
  const size = { high: Math.ceil(high / down), wide: Math.ceil(wide / across) };
  const found = new Float32Array(size.high * size.wide);
  for (let row = 0; row < high; row++) {
    for (let column = 0; column < wide; column++) {
      const place = Math.floor(row / down) * size.wide + Math.floor(column / across);
      const value = values[row * wide + column];
      if (Math.abs(value) > Math.abs(found[place])) found[place] = value;
    }
  }
  return { values: found, ...size };
}

// Which of 256 colours a value has.
function step(value, [low, high, root]) {
  const share = Math.min(1, Math.max(0, (value - low) / (high - low)));
  return Math.floor(255 * (root ? Math.sqrt(share) : share) + 0.5);
}

// One pixel a value; the ramp has three bytes a colour.
function paint(canvas, { values, high, wide }, scale, ramp) {
  canvas.width = wide;
  canvas.height = high;
  const context = canvas.getContext("2d"), image = context.createImageData(wide, high);
  for (let place = 0; place < values.length; place++) {
    const colour = 3 * step(values[place], scale);
    for (let channel = 0; channel < 3; channel++) image.data[4 * place + channel] = ramp[colour + channel];
    image.data[4 * place + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

function number(value) {
  if (typeof value !== "number") return String(value); // the name of what is no number
  if (value === 0) return "0";
  return Math.abs(value) < 1e-4 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

// A token in which blanks and control characters can be seen.
function visible(text) {
  const shown = text.replaceAll("\n", "↵").replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
  return shown.replaceAll(" ", "␣") || "∅";
}

function make(tag, name = "", text = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.textContent = text;
  return made;
}

function wrap(node) {
  const made = make("dd");
  made.append(node);
  return made;
}

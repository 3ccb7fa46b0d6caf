"use strict";
// Code (plotly.js, then the report's own) and data are compressed with zlib and written in base 85, five characters for
// four bytes; the comma stands for <. They are read, and the code is run, when the page opens.
const CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

function bytesOf(text) {
  const value = new Uint8Array(128), n = text.length, size = Math.floor(n / 5) * 4 + Math.max((n % 5) - 1, 0);
  [...CHARACTERS].forEach((c, k) => { value[c.charCodeAt(0)] = k; });
  const found = new Uint8Array(size + 3), view = new DataView(found.buffer);
  for (let i = 0, at = 0; i < n; i += 5, at += 4) {
    let sum = 0;
    for (let k = 0; k < 5; k++) sum = sum * 85 + (i + k < n ? value[text.charCodeAt(i + k)] : 84);
    if (at + 4 <= found.length) view.setUint32(at, sum);
  }
  return found.subarray(0, size);
}

async function unpacked(id) {
  const packed = new Blob([bytesOf(document.getElementById(id).textContent)]);
  return new Response(packed.stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

(async () => {
  if (!window.DecompressionStream) { document.getElementById("too-old").hidden = false; return; }
  window.contents = JSON.parse(await unpacked("data"));
  const script = document.createElement("script");
  script.textContent = await unpacked("code");
  document.body.append(script);
})();

// Perfetto's trace processor as a filter. Both ways TraceProcessorRpcStream messages; on stdin, each of them holds
// one request and comes after its length (4 bytes, little endian).
// It is the worker of Perfetto's UI (engine_bundle.js and a wasm), run in node as if in a browser.
//   node engine.js FOLDER_OF_THE_UI
'use strict';
const fs = require('fs');
const path = require('path');
const ui = process.argv[2];

// The worker fetches its wasm with a synchronous request.
class Request {
  open(_method, url) { this.file = path.join(ui, path.basename(url)); }
  send() { this.response = new Uint8Array(fs.readFileSync(this.file)).buffer; }
}

// What the worker expects of a browser, as parameters of one function; node's own globals are hidden from it.
// Not in a vm context: its `instanceof` checks need our realm's Uint8Array and TypeError.
const browser = {
  self: {location: {href: 'http://ui/engine_bundle.js'}},
  XMLHttpRequest: Request,
  WorkerGlobalScope: class {},
  console: {log: console.error, warn: console.error, error: console.error},
  process: undefined, window: undefined, document: undefined,
};
const bundle = fs.readFileSync(path.join(ui, 'engine_bundle.js'), 'utf8');
new Function(...Object.keys(browser), bundle)(...Object.values(browser));

const replies = [];
const port = {postMessage: (bytes) => replies.push(bytes)};
browser.self.onmessage({data: port});

// The engine takes one request at a time.
const input = fs.readFileSync(0);
const requests = [];
for (let at = 0; at < input.length; ) {
  const end = at + 4 + input.readUInt32LE(at);
  requests.push(new Uint8Array(input.subarray(at + 4, end)));
  at = end;
}

// The worker does not say when its wasm is ready. Until the memory is there it throws a TypeError and has taken
// nothing; what then still runs before a request may come has been queued, so this waits for a timer each time.
const deadline = Date.now() + 60_000;
setTimeout(function whenReady() {
  try {
    port.onmessage({data: requests[0]});
  } catch (error) {
    if (!(error instanceof TypeError) || Date.now() > deadline) throw error;
    setTimeout(whenReady, 10);
    return;
  }
  for (const request of requests.slice(1)) port.onmessage({data: request});
  process.stdout.write(Buffer.concat(replies));
}, 10);

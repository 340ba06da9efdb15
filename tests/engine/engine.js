// Perfetto's trace processor as a filter, a fresh one for each question. A question on stdin: how many requests it has
// (4 bytes, little endian), and each as a TraceProcessorRpcStream message after its length; an answer on stdout: one
// such message after its length. What is compiled of the wasm for one is there for the next.
// It is the worker of Perfetto's UI (engine_bundle.js and a wasm), run in node as if in a browser.
//   node engine.js FOLDER_OF_THE_UI
'use strict';
const fs = require('fs');
const path = require('path');
const ui = process.argv[2];
const bundle = fs.readFileSync(path.join(ui, 'engine_bundle.js'), 'utf8');

// The worker fetches its wasm with a synchronous request.
class Request {
  open(_method, url) { this.file = path.join(ui, path.basename(url)); }
  send() { this.response = new Uint8Array(fs.readFileSync(this.file)).buffer; }
}

function started(replies) {
  // What the worker expects of a browser, as parameters of one function; node's own globals are hidden from it.
  // Not in a vm context: its `instanceof` checks need our realm's Uint8Array and TypeError.
  const browser = {
    self: {location: {href: 'http://ui/engine_bundle.js'}},
    XMLHttpRequest: Request,
    WorkerGlobalScope: class {},
    console: {log: console.error, warn: console.error, error: console.error},
    process: undefined, window: undefined, document: undefined,
  };
  new Function(...Object.keys(browser), bundle)(...Object.values(browser));
  const port = {postMessage: (bytes) => replies.push(bytes)};
  browser.self.onmessage({data: port});
  return port;
}

function read(length) {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; ) {
    const more = fs.readSync(0, bytes, at, length - at);
    if (!more) process.exit();
    at += more;
  }
  return bytes;
}

const number = () => Buffer.from(read(4)).readUInt32LE();

function write(bytes) {
  for (let at = 0; at < bytes.length; ) at += fs.writeSync(1, bytes, at);
}

function answer() {
  const replies = [];
  const port = started(replies);
  const requests = Array.from({length: number()}, () => read(number()));
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
    const length = Buffer.alloc(4);
    length.writeUInt32LE(replies.reduce((sum, bytes) => sum + bytes.length, 0));
    write(Buffer.concat([length, ...replies]));
    setTimeout(answer);
  }, 10);
}

answer();

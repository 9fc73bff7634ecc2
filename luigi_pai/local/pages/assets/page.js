// Keeps a page up to date: reloads the parts marked data-part from the server, and appends new output to the log.
"use strict";

const PAUSE = 1000; // milliseconds between two updates
const FIRST_PIECE = 65536; // bytes from the end of a log to show at first
const PIECE = 262144;
const MOST_SHOWN = 1000000; // maximum characters of a log to keep on the page
const main = document.getElementById("content");
const trouble = document.getElementById("trouble");
const log = document.getElementById("log");
const which = document.getElementById("which-log");
let live = main.hasAttribute("data-live");
let chosen = ""; // the log chosen by the reader

function say(text) {
  if (trouble.textContent !== text) trouble.textContent = text;
}

// Makes a node equal to the one on the fresh page, changing only what differs.
function renew(node, fresh) {
  if (node.isEqualNode(fresh)) return;
  if (node.nodeName !== fresh.nodeName) {
    node.replaceWith(document.importNode(fresh, true));
    return;
  }
  if (node.nodeType === Node.TEXT_NODE) {
    node.data = fresh.data;
    return;
  }
  for (const { name } of [...node.attributes]) if (!fresh.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  const [old, wanted] = [[...node.childNodes], [...fresh.childNodes]];
  wanted.forEach((child, at) => {
    if (at < old.length) renew(old[at], child);
    else node.append(document.importNode(child, true));
  });
  old.slice(wanted.length).forEach((child) => child.remove());
}

async function look() {
  const answer = await fetch(location.href, { cache: "no-store" });
  const now = new DOMParser().parseFromString(await answer.text(), "text/html");
  const focused = document.activeElement.id;
  for (const part of document.querySelectorAll("[data-part]")) {
    const fresh = now.getElementById(part.id);
    if (fresh) renew(part, fresh);
  }
  if (chosen && which.value !== chosen) which.value = chosen; // the reader's choice, not the server's
  if (focused && document.activeElement.id !== focused) {
    document.getElementById(focused)?.focus({ preventScroll: true });
  }
  live = now.getElementById("content").hasAttribute("data-live");
}

let reading = { log: "", next: -1 };
let more = true; // whether the log has more than the page shows

async function read() {
  if (reading.log !== which.value) {
    reading = { log: which.value, next: -1, decoder: new TextDecoder() };
    log.textContent = "";
  }
  more = false;
  const mine = reading;
  if (!mine.log) return;
  const from = mine.next;
  const Range = from < 0 ? "bytes=-" + FIRST_PIECE : "bytes=" + from + "-" + (from + PIECE - 1);
  const answer = await fetch("/node/containerlogs/" + mine.log, { cache: "no-store", headers: { Range } });
  const bytes = await answer.arrayBuffer();
  if (mine !== reading || mine.next !== from) return; // another read already showed this piece, or another log was chosen
  if (answer.status >= 500) throw new Error("no log");
  if (!answer.ok) return; // 416: nothing new
  const [, begin, size] = (/(\d+)-\d+\/(\d+)/.exec(answer.headers.get("Content-Range")) || [0, 0, 0]).map(Number);
  if (mine.next < 0 && begin > 0) log.append("[this is its end; the link at the task shows all of it]\n");
  mine.next = begin + bytes.byteLength;
  more = mine.next < size;
  if (!bytes.byteLength) return;
  log.append(mine.decoder.decode(bytes, { stream: true }));
  if (log.textContent.length > MOST_SHOWN) log.textContent = log.textContent.slice(-MOST_SHOWN / 2);
  if (document.getElementById("follow").checked) log.scrollTop = log.scrollHeight;
}

async function goOn() {
  let pause = PAUSE;
  try {
    if (!document.hidden) {
      const grows = live;
      if (live) await look();
      if (log && (grows || more || reading.log !== which.value)) await read();
      if (log && more) pause = 0;
    }
    say("");
  } catch (error) {
    more = true; // the next round fetches the missing piece
    say("The server does not answer. Trying again.");
  }
  setTimeout(goOn, pause);
}

if (log) {
  document.getElementById("output").hidden = false;
  which.addEventListener("change", () => {
    chosen = which.value;
    read().catch(() => { more = true; });
  });
}
goOn();

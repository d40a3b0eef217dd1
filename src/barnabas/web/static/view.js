import { History } from "./facts.js";
import { element, moment } from "./draw.js";
import { drawPicture } from "./picture.js";
import { PAGES, useHistory } from "./pages.js";

// Which page is shown, the live stream, and the slider. What is shown stands in the address, so that it can be sent.

const place = (id) => document.getElementById(id);
const NAMES = ["cluster", ...Object.keys(PAGES)];
const PAUSE_AFTER_LOSS_MS = 2000;

const embedded = place("history");
let history = null;
let cursor = null; // how many changes are taken in; null: all there are, and all that come
let timer = null;
let drawn = 0;
let due = false;

function where() {
  const [name, words] = location.hash.replace(/^#\/?/, "").split("?");
  return { name: NAMES.includes(name) ? name : "cluster", query: new URLSearchParams(words ?? "") };
}

function count() {
  return cursor ?? history.changes.length;
}

async function show() {
  clearTimeout(timer);
  const mine = ++drawn;
  const { name, query } = where();
  const main = place("main");
  for (const each of place("nav").children) {
    if (each.dataset.page === name) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  place("time").hidden = name !== "cluster";
  document.title = `Barnabas: ${name}`;
  if (name === "cluster") {
    if (history) redraw();
    else main.replaceChildren(element("p", { class: "note" }, "…"));
    return;
  }
  // A page is drawn aside, so that one that comes late does not draw over its successor.
  const aside = element("div");
  let again = null;
  try {
    again = await PAGES[name](aside, query);
  } catch (error) {
    aside.append(element("p", { class: "error" }, error.message));
  }
  if (mine !== drawn) return;
  if (!main.contains(document.activeElement) || !document.activeElement.matches("input, select")) {
    main.replaceChildren(...aside.childNodes);
  }
  if (again) timer = setTimeout(show, again);
}

// The picture and the slider, at the cursor.
function redraw() {
  due = false;
  if (where().name !== "cluster" || !history) return;
  const main = place("main");
  if (main.contains(document.activeElement) && document.activeElement.matches("input") && cursor === null) {
    return; // somebody types
  }
  drawPicture(main, history, count(), where().query, go);
  const at = count();
  const ms = at ? history.changes[at - 1][0] : history.beforeMs;
  const span = history.lastMs - history.firstMs || 1;
  place("slider").value = cursor === null ? 1000 : Math.round(((ms - history.firstMs) / span) * 1000);
  place("moment").textContent = moment(cursor === null ? history.lastMs : ms);
  place("live").setAttribute("aria-pressed", String(cursor === null));
}

function soon() {
  if (due) return;
  due = true;
  requestAnimationFrame(redraw);
}

// Goes to the moment behind the first `at` changes; null: to now.
function go(at) {
  const all = history.changes.length;
  if (at !== null && at < all) cursor = at;
  else cursor = embedded ? all : null;
  redraw();
}

function scrub() {
  const part = Number(place("slider").value) / 1000;
  if (part === 1 && !embedded) go(null);
  else go(history.countAt(history.firstMs + part * (history.lastMs - history.firstMs)));
}

async function follow() {
  const link = place("link");
  try {
    history = new History(await (await fetch("/history")).json());
  } catch {
    link.textContent = "the broker does not answer";
    link.className = "link lost";
    setTimeout(follow, PAUSE_AFTER_LOSS_MS);
    return;
  }
  useHistory(history);
  cursor = null;
  link.textContent = `seen by ${history.madeBy}`;
  link.className = "link";
  soon();
  const stream = new EventSource(`/live?since=${history.written}`);
  stream.addEventListener("changes", (event) => {
    history.take(JSON.parse(event.data));
    if (cursor === null) soon();
  });
  // Another life of the broker counts anew, and what was missed cannot be made up for: all of it is read again.
  const again = () => {
    stream.close();
    link.textContent = "reading again";
    link.className = "link lost";
    setTimeout(follow, PAUSE_AFTER_LOSS_MS);
  };
  stream.addEventListener("gap", again);
  stream.onerror = again;
}

function keys(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input, select, textarea")) return;
  const number = Number(event.key);
  if (number >= 1 && number <= NAMES.length && !embedded) location.hash = `#/${NAMES[number - 1]}`;
  else if (event.key === "/") place("search")?.focus();
  else if (event.key === "l" && history && !embedded) go(null);
  else if (event.key === "," && history) go(history.step(count(), -1));
  else if (event.key === "." && history) go(history.step(count(), 1));
  else return;
  event.preventDefault();
}

function begin() {
  addEventListener("hashchange", () => {
    document.activeElement?.blur();
    show();
  });
  addEventListener("keydown", keys);
  place("slider").addEventListener("input", scrub);
  place("live").addEventListener("click", () => go(null));
  place("back").addEventListener("click", () => go(history.step(count(), -1)));
  place("forth").addEventListener("click", () => go(history.step(count(), 1)));
  if (embedded) {
    history = new History(JSON.parse(embedded.textContent));
    cursor = history.changes.length;
    place("live").hidden = place("export").hidden = true;
    place("link").textContent = `recorded by ${history.madeBy}`;
  } else {
    NAMES.forEach((name, at) =>
      place("nav").append(element("a", { href: `#/${name}`, "data-page": name, title: `key ${at + 1}` }, name)));
    follow();
  }
  show();
}

begin();

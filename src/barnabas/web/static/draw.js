// Elements of a page. Text is always text: nothing that comes from a cluster is read as HTML.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

export function link(text, page, query = {}) {
  return element("a", { href: address(page, query) }, text);
}

export function address(page, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const words = new URLSearchParams(given).toString();
  return `#/${page}${words ? `?${words}` : ""}`;
}

// Columns are [head, function of a row, class]; a cell is text, a number or an element.
export function table(columns, rows) {
  const head = element("tr", {}, columns.map(([name, , kind]) => element("th", { class: kind, scope: "col" }, name)));
  const lines = rows.map((row) =>
    element("tr", {}, columns.map(([, cell, kind]) => element("td", { class: kind }, shown(cell(row))))),
  );
  return element("table", {}, element("thead", {}, head), element("tbody", {}, lines));
}

export function shown(value) {
  if (value === null || value === undefined || value === "") return "–";
  return typeof value === "number" ? value.toLocaleString("en") : value;
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; bytes >= 1024 && at < units.length - 1; at++) bytes /= 1024;
  return `${at ? bytes.toFixed(1) : bytes} ${units[at]}`;
}

// The simulator's time begins at 0, and has no day.
export function moment(ms) {
  if (ms < 0) return "–";
  const text = new Date(ms).toISOString();
  return ms < 86_400_000 ? text.slice(11, -1) : text.slice(0, -1).replace("T", " ");
}

// A small chart of [time, value] pairs.
export function line(points) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "line");
  svg.setAttribute("viewBox", "0 0 100 30");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  if (points.length > 1) {
    const values = points.map(([, value]) => value);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const [first, last] = [points[0][0], points[points.length - 1][0]];
    const drawn = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    drawn.setAttribute("points", points.map(([ms, value]) => {
      const x = ((ms - first) / (last - first || 1)) * 100;
      const y = 28 - ((value - low) / (high - low || 1)) * 26;
      return `${x.toFixed(2)},${y.toFixed(2)}`;
    }).join(" "));
    svg.append(drawn);
  }
  return svg;
}

// A form whose fields become the query of a page.
export function form(page, query, ...fields) {
  return element("form", {
    onsubmit: (event) => {
      event.preventDefault();
      location.hash = address(page, Object.fromEntries(new FormData(event.target)));
    },
  }, fields, element("button", { type: "submit" }, "show"));
}

export function field(label, name, query, attributes = {}) {
  return element("label", {}, label, element("input", { name, value: query.get(name) ?? "", ...attributes }));
}

// The way to the other parts of a list that is told in parts.
export function parts(page, query, answer) {
  const until = Math.min(answer.from + answer.limit, answer.total);
  const at = (from) => address(page, { ...Object.fromEntries(query), from });
  return element("p", { class: "note" },
    `${answer.total ? answer.from + 1 : 0} to ${until} of ${answer.total.toLocaleString("en")} `,
    answer.from > 0 ? element("a", { href: at(Math.max(0, answer.from - answer.limit)), rel: "prev" }, "◀ before ") : null,
    until < answer.total ? element("a", { href: at(until), rel: "next" }, "next ▶") : null,
  );
}

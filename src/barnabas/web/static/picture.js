import { topicPartition } from "./facts.js";
import { element, form, field, line, moment, parts } from "./draw.js";

const ROWS = 100;
const SENTENCES = 200;

// The cluster after the first `count` changes of a history: brokers across, partitions down, and what happened last.
export function drawPicture(main, history, count, query, go) {
  const facts = count === history.changes.length ? history.facts : history.at(count);
  const brokers = [...facts.keys()].filter((name) => name.startsWith("broker/")).map((name) => Number(name.slice(7)));
  brokers.sort((one, other) => one - other);
  const wanted = (query.get("q") ?? "").toLowerCase();
  const names = [];
  const troubled = query.get("trouble") === "1";
  for (const [name, partition] of facts) {
    if (!name.startsWith("partition/")) continue;
    const of = name.slice(10);
    if (wanted ? !of.toLowerCase().includes(wanted) : of.startsWith("__")) continue;
    if (troubled && partition.leader >= 0 && partition.isr.length >= partition.replicas.length) continue;
    names.push(of);
  }
  names.sort((one, other) => {
    const [topic, number] = topicPartition(one);
    const [otherTopic, otherNumber] = topicPartition(other);
    return topic < otherTopic ? -1 : topic > otherTopic ? 1 : number - otherNumber;
  });
  const first = Number(query.get("from") ?? 0);
  const rows = names.slice(first, first + ROWS);
  main.replaceChildren(
    element("h1", {}, "Cluster"),
    form("cluster", query,
      field("partitions with", "q", query, { type: "search", id: "search" }),
      element("label", {}, "in trouble only",
        element("input", { type: "checkbox", name: "trouble", value: "1", checked: troubled }))),
    element("div", { class: "split" },
      element("div", {},
        element("p", { class: "note", id: "controller" }, controllerWords(facts)),
        grid(facts, brokers, rows),
        parts("cluster", query, { from: first, limit: ROWS, total: names.length }),
        lags(history, facts, count)),
      element("section", { "aria-label": "What happened" }, story(history, count, wanted, go))),
  );
}

function controllerWords(facts) {
  const controller = facts.get("controller");
  const queue = facts.get("queue");
  const words = controller ? `controller: broker ${controller.id}, epoch ${controller.epoch}` : "no controller";
  if (!queue) return words;
  return `${words}; ${queue.event ? `in hand: ${queue.event}` : "idle"}, ${queue.size} events wait`;
}

function grid(facts, brokers, rows) {
  const controller = facts.get("controller")?.id;
  const head = element("tr", {},
    element("th", { scope: "col" }, "partition"),
    brokers.map((id) => {
      const broker = facts.get(`broker/${id}`);
      const kind = ["broker", broker.up ? "" : "down", id === controller ? "controller" : ""].join(" ");
      const waiting = facts.get(`requests/${id}`);
      return element("th", { scope: "col" },
        element("span", { class: kind, "data-broker": id },
          `broker ${id}${id === controller ? " ★" : ""}`,
          element("small", { class: "soft" }, broker.address),
          element("small", {}, broker.up ? (waiting ? `${waiting} requests on the way` : "up") : "down")));
    }),
    element("th", { scope: "col" }, "high watermark"));
  const lines = rows.map((of) => {
    const partition = facts.get(`partition/${of}`);
    const offsets = facts.get(`offsets/${of}`);
    return element("tr", { "data-partition": of },
      element("th", { scope: "row" }, `${of} `, element("small", { class: "soft" }, `epoch ${partition.leader_epoch}`)),
      brokers.map((id) => element("td", {}, replica(facts, partition, offsets, id))),
      element("td", { class: "n" }, offsets ? offsets.high_watermark.toLocaleString("en") : "–"));
  });
  return element("table", { class: "picture" }, element("thead", {}, head), element("tbody", {}, lines));
}

// A replica's part, and by how many records it is behind its leader where that is known.
function replica(facts, partition, offsets, id) {
  if (!partition.replicas.includes(id)) return "";
  const up = facts.get(`broker/${id}`)?.up;
  const leads = partition.leader === id;
  const inSync = partition.isr.includes(id);
  const kind = leads ? "leader" : inSync ? "in-sync" : "out";
  const behind = offsets?.behind?.[id];
  const distance = behind === undefined ? "" : behind ? ` −${behind.toLocaleString("en")}` : " =";
  const role = leads ? "leader" : inSync ? "in sync" : "out of sync";
  return element("span", { class: `replica ${kind}${up ? "" : " down"}`, title: `${role}${up ? "" : ", its broker is down"}` },
    leads ? "leader" : `${inSync ? "isr" : "out"}${distance}`);
}

function lags(history, facts, count) {
  const groups = [...facts.keys()].filter((name) => name.startsWith("lag/")).slice(0, 12);
  if (!groups.length) return null;
  return element("section", {},
    element("h2", {}, "Lag of groups"),
    element("div", { class: "charts" }, groups.map((name) =>
      element("div", { class: "chart" },
        element("h3", {}, name.slice(4)),
        element("b", {}, facts.get(name).toLocaleString("en")), " records",
        line(history.series(name, count))))));
}

// Partitions that the picture leaves out are left out here, too; what is of none is told in any case.
function story(history, count, wanted, go) {
  const about = (sentence) => sentence.match(/[\w.-]+-\d+\b/)?.[0] ?? "";
  const told = history.story(count, SENTENCES, (sentence) => {
    const of = about(sentence);
    return wanted ? !of || of.toLowerCase().includes(wanted) : !of.startsWith("__");
  });
  return element("ol", { class: "story" }, told.map(([ms, sentence, at]) =>
    element("li", {},
      element("a", { href: "#", title: "the cluster at this moment", onclick: (event) => { event.preventDefault(); go(at); } },
        element("time", {}, moment(ms).slice(-12))),
      sentence)));
}

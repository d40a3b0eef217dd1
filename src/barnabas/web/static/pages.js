import { decoded } from "./decode.js";
import { element, field, form, line, link, moment, parts, shown, size, table } from "./draw.js";

// Every page is a function of the place it draws in and of its query. One that is drawn again by itself says so by the
// milliseconds that it returns.

async function ask(path, query) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

async function topicsPage(main, query) {
  if (query.get("topic")) return topicPage(main, query);
  const answer = await ask("/topics", query);
  main.replaceChildren(
    element("h1", {}, "Topics"),
    form("topics", query, field("name has", "q", query, { type: "search", id: "search" })),
    table([
      ["topic", (each) => link(each.topic, "topics", { topic: each.topic })],
      ["partitions", (each) => each.partitions, "n"],
      ["replicas", (each) => each.replication_factor, "n"],
      ["under-replicated", (each) => trouble(each.under_replicated), "n"],
      ["without leader", (each) => trouble(each.without_leader), "n"],
      ["replicas here", (each) => each.here, "n"],
      ["records here", (each) => each.records, "n"],
      ["size here", (each) => size(each.size), "n"],
    ], answer.topics),
    parts("topics", query, answer));
  return 3000;
}

function trouble(count) {
  return count ? element("span", { class: "bad" }, String(count)) : 0;
}

async function topicPage(main, query) {
  const topic = query.get("topic");
  const answer = await ask("/topics", { topic });
  main.replaceChildren(
    element("h1", {}, topic),
    element("p", {}, link("messages", "messages", { topic, partition: 0 }), " · ",
      link("configuration", "configurations", { topic, changed: "" }), " · ", link("picture", "cluster", { q: topic })),
    table([
      ["partition", (each) => each.partition, "n"],
      ["leader", (each) => (each.leader < 0 ? element("span", { class: "bad" }, "none") : String(each.leader)), "n"],
      ["epoch", (each) => String(each.leader_epoch), "n"],
      ["replicas", (each) => each.replicas.join(", ")],
      ["isr", (each) => element("span", { class: each.isr.length < each.replicas.length ? "bad" : "" }, each.isr.join(", "))],
      ["start", (each) => each.log_start_offset, "n"],
      ["high watermark", (each) => each.high_watermark, "n"],
      ["end", (each) => each.log_end_offset, "n"],
      ["size", (each) => size(each.size), "n"],
      ["", (each) => (each.here ? link("messages", "messages", { topic, partition: each.partition }) : "on another broker")],
    ], answer.partitions));
  return 3000;
}

async function messagesPage(main, query) {
  const search = form("messages", query,
    field("topic", "topic", query, { required: true, id: "search" }),
    field("partition", "partition", query, { type: "number", min: 0 }),
    field("from offset", "offset", query, { type: "number", min: 0 }),
    field("from time", "time", query, { type: "datetime-local", step: 1 }),
    field("key is", "key", query),
    element("label", {}, "shown as", element("select", { name: "as" }, ["auto", "json", "plain", "avro", "hex"].map((how) =>
      element("option", { selected: (query.get("as") ?? "auto") === how }, how)))));
  main.replaceChildren(element("h1", {}, "Messages"), search);
  if (!query.get("topic")) return;
  const asked = Object.fromEntries(query);
  if (asked.time) asked.at = String(Date.parse(asked.time));
  delete asked.time;
  const answer = await ask("/messages", asked);
  const how = query.get("as") ?? "auto";
  main.append(
    element("p", { class: "note" },
      `${answer.topic}-${answer.partition}, offsets ${answer.log_start_offset} to ${answer.high_watermark} `,
      answer.next_offset < answer.high_watermark
        ? link("next ▶", "messages", { ...Object.fromEntries(query), time: "", offset: answer.next_offset }) : ""),
    table([
      ["offset", (each) => String(each.offset), "n"],
      ["time", (each) => moment(each.timestamp)],
      ["key", (each) => pre(decoded(each.key, how).text)],
      ["value", (each) => pre(decoded(each.value, how).text)],
      ["as", (each) => decoded(each.value, how).kind],
      ["headers", (each) => pre(each.headers.map(([name, value]) => `${name}: ${decoded(value, how).text}`).join("\n"))],
    ], answer.messages));
}

function pre(text) {
  return text ? element("pre", {}, text) : "–";
}

async function groupsPage(main, query) {
  if (query.get("group")) return groupPage(main, query);
  const answer = await ask("/groups", query);
  main.replaceChildren(
    element("h1", {}, "Groups"),
    form("groups", query, field("name has", "q", query, { type: "search", id: "search" })),
    table([
      ["group", (each) => link(each.group, "groups", { group: each.group })],
      ["state", (each) => each.state],
      ["members", (each) => each.members, "n"],
      ["generation", (each) => each.generation, "n"],
      ["partitions", (each) => each.partitions, "n"],
      ["lag", (each) => each.lag, "n"],
    ], answer.groups),
    parts("groups", query, answer),
    answer.elsewhere.length
      ? element("p", { class: "note" }, `Other groups are coordinated by the brokers ${answer.elsewhere.join(", ")}.`) : "");
  return 3000;
}

async function groupPage(main, query) {
  const group = query.get("group");
  const [answer, history] = await Promise.all([ask("/groups", { group }), lagHistory(group)]);
  main.replaceChildren(
    element("h1", {}, group),
    element("p", {}, `${answer.state}, ${answer.members} members, generation ${answer.generation}`),
    element("div", { class: "charts" }, element("div", { class: "chart" },
      element("h3", {}, "lag over time, in records"), line(history))),
    table([
      ["topic", (each) => link(each.topic, "topics", { topic: each.topic })],
      ["partition", (each) => each.partition, "n"],
      ["committed", (each) => each.committed, "n"],
      ["end", (each) => each.end, "n"],
      ["lag", (each) => each.lag, "n"],
      ["behind", (each) => (each.behind_s === null ? null : `${each.behind_s.toFixed(1)} s`), "n"],
    ], answer.offsets),
    element("h2", {}, "Members"),
    table([
      ["member", (each) => each.member_id],
      ["client", (each) => each.client_id],
      ["host", (each) => each.host],
      ["partitions", (each) => each.assignment.join(", ")],
    ], answer.member_list));
  return 3000;
}

let known = null;

// The history as the live stream has it; view.js says which one that is.
export function useHistory(history) {
  known = history;
}

async function lagHistory(group) {
  return known ? known.series(`lag/${group}`, known.changes.length) : [];
}

async function transactionsPage(main, query) {
  const answer = await ask("/transactions", query);
  main.replaceChildren(
    element("h1", {}, "Transactions"),
    form("transactions", query, field("id has", "q", query, { type: "search", id: "search" })),
    table([
      ["transactional id", (each) => each.transactional_id],
      ["state", (each) => each.state],
      ["producer", (each) => `${each.producer_id}, epoch ${each.producer_epoch}`],
      ["since", (each) => moment(each.start_ms)],
      ["timeout", (each) => `${each.timeout_ms} ms`, "n"],
      ["partitions", (each) => each.partitions.join(", ")],
    ], answer.transactions),
    parts("transactions", query, answer),
    element("h2", {}, "Producers"),
    table([
      ["partition", (each) => each.partition],
      ["producer", (each) => `${each.producer_id}, epoch ${each.producer_epoch}`],
      ["last sequence", (each) => each.last_sequence, "n"],
      ["last offset", (each) => each.last_offset, "n"],
      ["last record", (each) => moment(each.last_timestamp)],
      ["transaction open since offset", (each) => each.open_since_offset, "n"],
    ], answer.producers));
  return 3000;
}

async function controllerPage(main) {
  const [controller, lines, machines] = await Promise.all([
    ask("/controller", {}), ask("/state-changes", {}), ask("/transitions", {}),
  ]);
  const { queue, reign } = controller;
  const facts = reign === null ? [] : Object.entries(reign).filter(([, value]) => typeof value === "number");
  main.replaceChildren(
    element("h1", {}, "Controller"),
    element("p", {}, controller.active
      ? `This broker is the controller, epoch ${controller.epoch}.`
      : `Broker ${controller.active_controller_id} is the controller: its own page has its queue.`),
    element("h2", {}, "Event queue"),
    element("p", {}, queue.event ? `in hand: ${queue.event}, for ${queue.event_ms} ms` : "idle",
      `; ${queue.size} wait${queue.waiting.length ? `: ${queue.waiting.slice(0, 50).join(", ")}` : ""}`),
    table([
      ["events", ([name]) => name],
      ["count", ([, each]) => each.count, "n"],
      ["mean", ([, each]) => `${(each.total_ms / each.count).toFixed(1)} ms`, "n"],
      ["longest", ([, each]) => `${each.max_ms} ms`, "n"],
      ["longest wait", ([, each]) => `${each.queue_max_ms} ms`, "n"],
    ], Object.entries(controller.events)),
    reign === null ? "" : element("h2", {}, "What it knows"),
    reign === null ? "" : table([["", ([name]) => name.replaceAll("_", " ")], ["", ([, value]) => value, "n"]], facts),
    reign === null ? "" : table([
      ["requests to broker", ([id]) => id], ["not answered", ([, count]) => count, "n"],
    ], Object.entries(reign.channels)),
    element("h2", {}, "State machines"),
    Object.entries(machines).map(([name, states]) => table(
      [[`${name}: state`, ([state]) => state], ["is entered from", ([, from]) => from.join(", ")]], Object.entries(states))),
    element("h2", {}, "State changes, and requests to brokers"),
    element("ol", { class: "story" }, lines.slice(-300).reverse().map((each) =>
      element("li", {}, element("time", {}, moment(each.ms)), each.line))));
  return 2000;
}

async function znodesPage(main, query) {
  const path = query.get("path") || "/";
  const answer = await ask("/znodes", { ...Object.fromEntries(query), path });
  const above = path.split("/").filter(Boolean);
  const crumbs = above.map((name, at) => [" / ", link(name, "znodes", { path: `/${above.slice(0, at + 1).join("/")}` })]);
  let text = answer.data;
  try {
    text = JSON.stringify(JSON.parse(answer.data), null, 2);
  } catch { /* it is no JSON, and shown as it is */ }
  main.replaceChildren(
    element("h1", {}, "Znodes"),
    element("p", {}, link("root", "znodes", { path: "/" }), crumbs),
    answer.hidden ? element("p", { class: "note" }, answer.hidden) : pre(text),
    table([["", ([name]) => name.replaceAll("_", " ")], ["", ([, value]) => shown(value), "n"]], Object.entries(answer.stat)),
    answer.total ? element("h2", {}, "Below it") : "",
    element("ul", {}, answer.children.map((name) =>
      element("li", {}, link(name, "znodes", { path: `${path === "/" ? "" : path}/${name}` })))),
    answer.total ? parts("znodes", query, answer) : "");
}

async function configurationsPage(main, query) {
  const answer = await ask("/configurations", query);
  main.replaceChildren(
    element("h1", {}, answer.topic ? `Configuration of ${answer.topic}` : "Configuration of this broker"),
    form("configurations", query,
      field("topic (none: this broker)", "topic", query),
      field("name has", "q", query, { type: "search", id: "search" }),
      element("label", {}, "changed only",
        element("input", { type: "checkbox", name: "changed", value: "1", checked: query.get("changed") === "1" }))),
    table([
      ["key", (each) => element("span", { title: each.doc ?? "" }, each.name)],
      ["value", (each) => element("span", { class: each.changed ? "warn" : "" }, each.sensitive ? "hidden" : shown(each.value))],
      ["default", (each) => each.default],
      ["from", (each) => each.source.toLowerCase().replaceAll("_", " ")],
    ], answer.configurations),
    parts("configurations", query, answer));
}

const samples = new Map();
const SAMPLES_MAX = 300;
const CHARTS_MAX = 60;
const CHARTS_AT_FIRST = ["brokertopicmetrics_messagesin_total", "bytesin_total", "bytesout_total", "underreplicated",
  "loop_lag_ms_sum", "process_resident", "process_cpu", "eventqueuesize", "isrshrinks", "connection_count", "group_lag_records"];

async function metricsPage(main, query) {
  const answer = await fetch("/metrics");
  const now = Date.now();
  for (const sample of (await answer.text()).split("\n")) {
    const space = sample.lastIndexOf(" ");
    if (sample.startsWith("#") || space < 0 || sample.includes("_bucket{")) continue;
    const name = sample.slice(0, space);
    const points = samples.get(name) ?? [];
    points.push([now, Number(sample.slice(space + 1))]);
    if (points.length > SAMPLES_MAX) points.shift();
    samples.set(name, points);
  }
  const wanted = query.get("q") ?? "";
  const names = [...samples.keys()].filter((name) => (wanted
    ? name.toLowerCase().includes(wanted.toLowerCase())
    : CHARTS_AT_FIRST.some((each) => name.includes(each)) && !name.includes("partition=") && !name.includes("topic=")));
  main.replaceChildren(
    element("h1", {}, "Metrics"),
    form("metrics", query, field("name has", "q", query, { type: "search", id: "search" })),
    element("p", { class: "note" }, `${Math.min(CHARTS_MAX, names.length)} of ${names.length}; counters are shown by second. `,
      element("a", { href: "/metrics" }, "as Prometheus reads them")),
    element("div", { class: "charts" }, names.slice(0, CHARTS_MAX).map((name) => chart(name, samples.get(name)))));
  return 2000;
}

// A counter's rate, and of anything else the value itself.
function chart(name, points) {
  const counts = /_(total|sum|count)(\{|$)/.test(name);
  const values = counts
    ? points.slice(1).map(([ms, value], at) => [ms, ((value - points[at][1]) * 1000) / (ms - points[at][0])])
    : points;
  const last = values.length ? values[values.length - 1][1] : null;
  return element("div", { class: "chart" },
    element("h3", {}, name),
    element("b", {}, last === null ? "–" : Number(last.toPrecision(4)).toLocaleString("en")), counts ? " /s" : "",
    line(values));
}

export const PAGES = {
  topics: topicsPage,
  messages: messagesPage,
  groups: groupsPage,
  transactions: transactionsPage,
  controller: controllerPage,
  znodes: znodesPage,
  configurations: configurationsPage,
  metrics: metricsPage,
};

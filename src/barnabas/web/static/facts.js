// A history is the facts before its first change, and the changes; web/history.py says which facts there are.
// The picture of a moment is the facts with all changes up to that moment upon them.

const LIVE_CHANGES_MAX = 300_000;

export class History {
  constructor({ made_by, written, before_ms, before, changes }) {
    this.madeBy = made_by;
    this.written = written;
    this.beforeMs = before_ms;
    this.before = new Map(Object.entries(before));
    this.changes = changes;
    this.facts = this.at(changes.length);
  }

  // What happened meanwhile, as a stream tells it.
  take(changes) {
    for (const change of changes) {
      this.changes.push(change);
      apply(this.facts, change);
    }
    if (this.changes.length > LIVE_CHANGES_MAX) {
      for (const change of this.changes.splice(0, LIVE_CHANGES_MAX / 10)) {
        apply(this.before, change);
        this.beforeMs = change[0];
      }
    }
  }

  // The facts behind the first `count` changes.
  at(count) {
    const facts = new Map(this.before);
    for (let index = 0; index < count; index++) apply(facts, this.changes[index]);
    return facts;
  }

  get firstMs() {
    return this.changes.length ? this.changes[0][0] : this.beforeMs;
  }

  get lastMs() {
    return this.changes.length ? this.changes[this.changes.length - 1][0] : this.beforeMs;
  }

  // How many changes there were up to a moment. They are nearly in the order of their times.
  countAt(ms) {
    let low = 0;
    let high = this.changes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.changes[middle][0] <= ms) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // A number's way through the first `count` changes, as pairs of time and value.
  series(name, count) {
    const points = this.before.has(name) ? [[this.beforeMs, this.before.get(name)]] : [];
    for (let index = 0; index < count; index++) {
      const [ms, changed, value] = this.changes[index];
      if (changed === name && value !== null) points.push([ms, value]);
    }
    return points;
  }

  // The last sentences of the first `count` changes, newest first; those that `wanted` lets through.
  story(count, most, wanted = () => true) {
    const told = [];
    for (let index = count - 1; index >= 0 && told.length < most; index--) {
      const sentence = words(this.changes[index]);
      if (sentence && wanted(sentence)) told.push([this.changes[index][0], sentence, index + 1]);
    }
    return told;
  }

  // The number of changes up to the next one that is worth a sentence, forth or back.
  step(count, direction) {
    for (let at = count + direction; at > 0 && at <= this.changes.length; at += direction) {
      if (words(this.changes[at - 1])) return at;
    }
    return direction > 0 ? this.changes.length : 0;
  }
}

function apply(facts, [, name, value]) {
  if (value === null) facts.delete(name);
  else if (name) facts.set(name, value);
}

// A change as a sentence; none for what moves all the time.
export function words([, name, value]) {
  const slash = name.indexOf("/");
  const kind = slash < 0 ? name : name.slice(0, slash);
  const of = name.slice(slash + 1);
  if (kind === "") return value;
  if (kind === "broker") return value === null || !value.up ? `broker ${of} is gone` : `broker ${of} is there`;
  if (kind === "controller") {
    return value === null ? "there is no controller" : `broker ${value.id} is controller, epoch ${value.epoch}`;
  }
  if (kind === "session") return `the ZooKeeper session is ${value}`;
  if (kind === "note") return value;
  if (kind !== "partition") return null;
  if (value === null) return `${of} is deleted`;
  const leader = value.leader < 0 ? "has no leader" : `is led by ${value.leader}`;
  return `${of} ${leader} in epoch ${value.leader_epoch}, isr [${value.isr.join(", ")}]`;
}

// Topic and number of TOPIC-N.
export function topicPartition(name) {
  const dash = name.lastIndexOf("-");
  return [name.slice(0, dash), Number(name.slice(dash + 1))];
}

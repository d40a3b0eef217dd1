// What bytes say: text, JSON, an Avro file with its schema in it, or just bytes.

export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

export function decoded(base64, how) {
  if (base64 === null) return { kind: "null", text: "" };
  const bytes = bytesOf(base64);
  if (how === "hex") return { kind: "hex", text: hex(bytes) };
  if ((how === "auto" || how === "avro") && isAvroFile(bytes)) {
    try {
      return { kind: "avro", text: JSON.stringify(avroFile(bytes), null, 2) };
    } catch (error) {
      return { kind: "avro", text: `${error.message}\n${hex(bytes)}` };
    }
  }
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return { kind: "hex", text: hex(bytes) };
  }
  if (how === "auto" || how === "json") {
    try {
      return { kind: "json", text: JSON.stringify(JSON.parse(text), null, 2) };
    } catch {
      return { kind: "plain", text };
    }
  }
  return { kind: "plain", text };
}

function hex(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(48)} ${letters}`);
  }
  return lines.join("\n");
}

// Avro's object container files (specification 1.11): magic, metadata with the schema, blocks of objects.

function isAvroFile(bytes) {
  return bytes.length > 4 && bytes[0] === 0x4f && bytes[1] === 0x62 && bytes[2] === 0x6a && bytes[3] === 1;
}

const AVRO_OBJECTS_MAX = 100;

function avroFile(bytes) {
  const reader = new AvroReader(bytes.subarray(4));
  const metadata = reader.map(() => reader.bytes());
  const text = (name) => (metadata[name] ? new TextDecoder().decode(metadata[name]) : "");
  const codec = text("avro.codec") || "null";
  if (codec !== "null") throw new Error(`an Avro file compressed by ${codec}`);
  const schema = JSON.parse(text("avro.schema"));
  reader.take(16);
  const objects = [];
  while (!reader.atEnd && objects.length < AVRO_OBJECTS_MAX) {
    const count = reader.long();
    reader.long();
    for (let at = 0; at < count && objects.length < AVRO_OBJECTS_MAX; at++) objects.push(reader.value(schema));
    if (objects.length < AVRO_OBJECTS_MAX) reader.take(16);
  }
  return objects.length === 1 ? objects[0] : objects;
}

class AvroReader {
  constructor(bytes) {
    this.data = bytes;
    this.position = 0;
    this.named = {};
  }

  get atEnd() {
    return this.position >= this.data.length;
  }

  take(count) {
    if (count < 0 || this.position + count > this.data.length) throw new Error("an Avro file that is cut off");
    this.position += count;
    return this.data.subarray(this.position - count, this.position);
  }

  long() {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = BigInt(this.take(1)[0]);
      value |= (byte & 0x7fn) << shift;
      if (byte < 0x80n) break;
    }
    const number = (value >> 1n) ^ -(value & 1n);
    return Number.isSafeInteger(Number(number)) ? Number(number) : String(number);
  }

  bytes() {
    return this.take(this.long());
  }

  blocks(one) {
    for (let count = this.long(); count !== 0; count = this.long()) {
      if (count < 0) {
        count = -count;
        this.long();
      }
      if (count > this.data.length) throw new Error("an Avro block that is too long");
      for (let at = 0; at < count; at++) one();
    }
  }

  map(value) {
    const found = {};
    this.blocks(() => {
      const name = new TextDecoder().decode(this.bytes());
      found[name] = value();
    });
    return found;
  }

  view(size) {
    const part = this.take(size);
    return new DataView(part.buffer, part.byteOffset, size);
  }

  value(schema) {
    if (Array.isArray(schema)) return this.value(schema[this.long()]);
    const type = typeof schema === "string" ? schema : schema.type;
    if (typeof type === "object") return this.value(type);
    if (schema.name) this.named[schema.name] = this.named[`${schema.namespace}.${schema.name}`] = schema;
    switch (type) {
      case "null": return null;
      case "boolean": return this.take(1)[0] === 1;
      case "int":
      case "long": return this.long();
      case "float": return this.view(4).getFloat32(0, true);
      case "double": return this.view(8).getFloat64(0, true);
      case "bytes": return hex(this.bytes());
      case "string": return new TextDecoder().decode(this.bytes());
      case "fixed": return hex(this.take(schema.size));
      case "enum": return schema.symbols[this.long()];
      case "map": return this.map(() => this.value(schema.values));
      case "array": {
        const items = [];
        this.blocks(() => items.push(this.value(schema.items)));
        return items;
      }
      case "record": return Object.fromEntries(schema.fields.map((each) => [each.name, this.value(each.type)]));
    }
    if (this.named[type]) return this.value(this.named[type]);
    throw new Error(`Avro's type ${type} is not known`);
  }
}

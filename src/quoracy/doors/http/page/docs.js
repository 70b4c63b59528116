"use strict";

// Shows /api/openapi.json as a page. Everything is put in as text, never as HTML.

const $ = (id) => document.getElementById(id);

function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function follow(doc, schema) {
  if (!schema || !schema.$ref) return schema || {};
  return doc.components.schemas[schema.$ref.split("/").pop()] || {};
}

function kindOf(doc, schema) {
  const named = schema && schema.$ref ? schema.$ref.split("/").pop() : "";
  if (named) return named;
  if (!schema) return "";
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choices = schema.anyOf || schema.oneOf;
  if (choices) return choices.map((part) => kindOf(doc, part)).join(" | ");
  if (schema.properties && schema.properties.event) return `event ${schema.properties.event.const}`;
  if (schema.type === "array") return `list of ${kindOf(doc, schema.items) || "anything"}`;
  if (schema.type === "object") return "table";
  return schema.type || "anything";
}

function limits(schema) {
  const said = [];
  if (schema.minimum !== undefined || schema.maximum !== undefined) said.push(`${schema.minimum ?? "…"} to ${schema.maximum ?? "…"}`);
  if (schema.minLength || schema.maxLength) said.push(`${schema.minLength ?? 0} to ${schema.maxLength ?? "…"} characters`);
  if (schema.pattern) said.push(schema.pattern);
  if (schema.default !== undefined) said.push(`default ${JSON.stringify(schema.default)}`);
  return said.join("; ");
}

function fields(doc, schema, asked) {
  const whole = follow(doc, schema);
  const rows = Object.entries(whole.properties || {}).map(([name, field]) => {
    const needed = !asked || (whole.required || []).includes(name) ? "" : "optional; ";
    const said = field.description || "";
    return make("tr", {}, make("td", {}, name), make("td", {}, kindOf(doc, field)),
      make("td", {}, [said, asked ? `${needed}${limits(field)}`.replace(/; $/, "") : ""].filter(Boolean).join(" ")));
  });
  return rows.length ? make("table", {}, ...rows) : make("p", {}, "nothing");
}

function heading(text) { return make("h3", {}, text); }

function tryIt(path, operation) {
  const box = make("form", { class: "try" });
  const inputs = [];
  for (const parameter of operation.parameters) {
    const input = make("input", { name: parameter.name, placeholder: parameter.name, "aria-label": parameter.name });
    inputs.push([parameter, input]);
    if (parameter.in !== "header") box.append(input, " ");
  }
  const streams = "text/event-stream" in operation.responses["200"].content;
  const out = make("pre", { hidden: "" });
  const address = () => {
    let filled = path;
    const query = new URLSearchParams();
    for (const [parameter, input] of inputs) {
      if (parameter.in === "path") filled = filled.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      if (parameter.in === "query" && input.value) query.set(parameter.name, input.value);
    }
    return query.size ? `${filled}?${query}` : filled;
  };
  box.append(make("button", { type: "submit" }, streams ? "Listen" : "Try it"));
  box.addEventListener("submit", (event) => {
    event.preventDefault();
    out.hidden = false;
    if (streams) listen(address(), out, box);
    else ask(address(), out);
  });
  return make("div", {}, box, out);
}

async function ask(address, out) {
  out.textContent = `GET ${address} …`;
  const began = performance.now();
  try {
    const answer = await fetch(address, { headers: { accept: "application/json, text/plain;q=0.5" } });
    const text = await answer.text();
    const took = (performance.now() - began).toFixed(1);
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* it is not JSON: show it as it is */ }
    out.textContent = `GET ${address}\n${answer.status} in ${took} ms\n\n${shown}`;
  } catch (error) {
    out.textContent = `GET ${address}\n${error}`;
  }
}

function listen(address, out, box) {
  const button = box.querySelector("button");
  if (box.source) {
    box.source.close();
    box.source = null;
    button.textContent = "Listen";
    return;
  }
  out.textContent = `GET ${address}\n`;
  box.source = new EventSource(address);
  button.textContent = "Stop";
  for (const kind of ["position", "entry", "gap", "reset", "bye"]) {
    box.source.addEventListener(kind, (event) => {
      out.textContent = `${out.textContent}${kind} ${event.lastEventId}  ${event.data}\n`.slice(-20000);
      out.scrollTop = out.scrollHeight;
    });
  }
  box.source.onerror = () => { out.textContent += "… the connection is gone; the browser connects again\n"; };
}

function responses(doc, operation) {
  const rows = Object.entries(operation.responses).map(([status, said]) => {
    const content = Object.values(said.content || {})[0];
    const what = status < 400 ? kindOf(doc, content && content.schema) : "";
    return make("tr", {}, make("td", { class: status < 400 ? "status" : "status bad" }, status),
      make("td", {}, said.description), make("td", {}, what));
  });
  return make("table", {}, ...rows);
}

function jsonBody(operation) {
  const json = operation.requestBody && operation.requestBody.content["application/json"];
  return json ? json.schema : null;
}

function example(doc, path, method, operation) {
  const schema = jsonBody(operation);
  const body = schema && follow(doc, schema);
  const sample = {};
  for (const name of (body && body.required) || []) {
    const field = body.properties[name];
    sample[name] = field.enum ? field.enum[0] : field.type === "integer" ? 1 : "…";
  }
  const header = operation.security ? " \\\n  -H 'authorization: Bearer TOKEN'" : "";
  const json = body ? ` \\\n  -H 'content-type: application/json' -d '${JSON.stringify(sample)}'` : "";
  const file = operation.requestBody && !body ? ` \\\n  -X ${method.toUpperCase()} --data-binary @FILE` : "";
  return make("pre", {}, `curl ${location.origin}${path}${header}${json}${file}`);
}

function route(doc, path, method, operation) {
  const inside = make("div", { class: "inside" });
  const box = make("details", { id: `route-${operation.operationId}` },
    make("summary", {}, make("span", { class: `method ${method}` }, method.toUpperCase()),
      make("span", { class: "path" }, path), make("span", { class: "told" }, operation.summary)), inside);
  box.addEventListener("toggle", () => {
    if (!box.open || inside.childElementCount) return;
    if (method === "get") inside.append(tryIt(path, operation));
    if (operation.parameters.length) {
      inside.append(heading("Parameters"), make("table", {}, ...operation.parameters.map((parameter) => make("tr", {},
        make("td", {}, parameter.name), make("td", {}, parameter.in), make("td", {}, parameter.description),
        make("td", {}, limits(parameter.schema))))));
    }
    if (jsonBody(operation)) {
      inside.append(heading("Body"), fields(doc, jsonBody(operation), true));
    } else if (operation.requestBody) {
      inside.append(heading("Body"), make("p", {}, Object.keys(operation.requestBody.content).join(", ")));
    }
    const content = Object.values(operation.responses)[0].content || {};
    const answer = Object.values(content)[0];
    if (answer && answer.schema.$ref) inside.append(heading(`Answer: ${kindOf(doc, answer.schema)}`), fields(doc, answer.schema, false));
    inside.append(heading("Answers"), responses(doc, operation), heading("In a shell"), example(doc, path, method, operation));
  });
  return box;
}

function show(doc) {
  $("version").textContent = doc.info.version;
  $("about").textContent = doc.info.description;
  for (const { name, description } of doc.tags) {
    $("contents").append(make("h2", {}, name));
    $("routes").append(make("h2", {}, name, make("small", {}, description)));
    for (const [path, operations] of Object.entries(doc.paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        if (operation.tags[0] !== name) continue;
        const box = route(doc, path, method, operation);
        const link = make("a", { href: `#route-${operation.operationId}` }, operation.summary);
        link.addEventListener("click", () => { box.open = true; });
        $("contents").append(link);
        $("routes").append(box);
      }
    }
  }
  const named = location.hash && document.getElementById(location.hash.slice(1));
  if (named) named.open = true;
  document.body.dataset.ready = "yes";
}

async function login(event) {
  event.preventDefault();
  const answer = await fetch("/api/login", {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token: $("token").value }),
  });
  const told = await answer.json();
  $("token").value = "";
  $("who").textContent = answer.ok ? `${told.role} of ${told.run === "*" ? "all runs" : told.run}` : `${told.detail}; ${told.fix}`;
}

$("login").addEventListener("submit", login);
$("logout").addEventListener("click", async () => {
  await fetch("/api/logout", { method: "POST" });
  $("who").textContent = "logged out";
});
fetch("/api/openapi.json").then((answer) => answer.json()).then(show);

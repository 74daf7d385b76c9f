// The official Node client of OpenAI against the router: node openai.mjs URL MODEL. It throws where an answer is not as it must be.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [url, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, timeout: 60_000 });
const messages = [{ role: "user", content: "hello" }];

const names = [];
for await (const m of client.models.list()) names.push(m.id);
assert.ok(names.includes(model), `models: ${names}`);

const answer = await client.chat.completions.create({ model, messages, max_tokens: 8 });
assert.ok(answer.choices[0].message.content.length > 0);
assert.equal(answer.usage.completion_tokens, 8);

const chunks = [];
for await (const c of await client.chat.completions.create({ model, messages, max_tokens: 8, stream: true, stream_options: { include_usage: true } })) chunks.push(c);
assert.equal(chunks.at(-1).usage.completion_tokens, 8);
assert.ok(chunks.map((c) => c.choices[0]?.delta?.content ?? "").join("").length > 0);

const completion = await client.completions.create({ model, prompt: "once", max_tokens: 4 });
assert.equal(completion.usage.completion_tokens, 4);

const response = await client.responses.create({ model, input: "hello", max_output_tokens: 8 });
assert.ok(response.output_text.length > 0);
const kinds = [];
for await (const e of await client.responses.create({ model, input: "hello", max_output_tokens: 8, stream: true })) kinds.push(e.type);
assert.equal(kinds[0], "response.created");
assert.match(kinds.at(-1), /^response\.(completed|incomplete)$/);

// A client that leaves in the middle.
const leaving = await client.chat.completions.create({ model, messages, max_tokens: 4000, stream: true });
for await (const _ of leaving) break;
leaving.controller.abort();

// An error is one of the client's own classes, with the router's code and message.
await assert.rejects(client.chat.completions.create({ model: "nothing", messages }), (e) => {
  assert.ok(e instanceof OpenAI.NotFoundError, e);
  assert.equal(e.code, "model_not_found");
  assert.match(e.message, new RegExp(model));
  return true;
});
console.log("ok");

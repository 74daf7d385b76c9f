// Vercel's AI SDK against the router, by three of its providers: node ai.mjs URL MODEL. It throws where an answer is not as it must be.
import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, streamText } from "ai";

const [url, name] = process.argv.slice(2);
const at = { baseURL: `${url}/v1`, apiKey: "none" };
const compatible = createOpenAICompatible({ ...at, name: "here", includeUsage: true });
const limits = { maxOutputTokens: 8, maxRetries: 0 };

for (const model of [createOpenAI(at)(name), createOpenAI(at).chat(name), compatible(name), createAnthropic(at)(name)]) {
  const messages = [];
  for (const text of ["hello ".repeat(60), "go on"]) {
    messages.push({ role: "user", content: text });
    const answer = await generateText({ model, messages, ...limits });
    assert.ok(answer.text.length > 0, model.provider);
    assert.equal(answer.usage.outputTokens, 8, model.provider);
    messages.push({ role: "assistant", content: answer.text });
    if (text === "go on") assert.ok(answer.usage.inputTokenDetails.cacheReadTokens > 0, `${model.provider}: the second turn finds nothing cached`);
  }
  const stream = streamText({ model, messages: [...messages, { role: "user", content: "stream" }], ...limits });
  let pieces = 0;
  for await (const _ of stream.textStream) pieces++;
  assert.ok(pieces > 0, model.provider);
  assert.equal((await stream.usage).outputTokens, 8, model.provider);
}

await assert.rejects(generateText({ model: compatible("nothing"), prompt: "hello", maxRetries: 0 }), (e) => {
  assert.ok(APICallError.isInstance(e), e);
  assert.equal(e.statusCode, 404);
  assert.match(e.message, new RegExp(name));
  return true;
});
console.log("ok");

// The same conversations as client.py holds, with the vendors' SDKs for Node. The folder with their packages is the first argument.
import { createRequire } from "node:module";

const require = createRequire(process.argv[2] + "/package.json");
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

class Left extends Error {}

class Talk {
  constructor(told) {
    this.told = told;
    this.turns = [];
    this.seen = [];
  }
  note(thing) {
    this.seen.push(JSON.stringify(thing));
    if (this.told.leave_after && this.seen.length >= this.told.leave_after) throw new Left();
  }
  turn(text, calls, finish, usage) {
    this.turns.push({ text, calls, finish, usage });
    return calls.length > 0 && this.turns.length < (this.told.most ?? 6);
  }
  answer(name) {
    const failed = name in (this.told.errors ?? {});
    return [failed ? this.told.errors[name] : this.told.results[name], failed];
  }
  options(path) {
    const { base, key, headers } = this.told;
    return { baseURL: base + path, apiKey: key ?? "any", maxRetries: 0, timeout: 60000, defaultHeaders: headers ?? {} };
  }
}

async function all(pages) {
  const ids = [];
  for await (const model of pages) ids.push(model.id ?? model.name);
  return ids;
}

async function chat(talk) {
  const { OpenAI } = require("openai");
  const told = talk.told;
  const client = new OpenAI(talk.options("/v1"));
  if ("list" in told) {
    talk.turns.push({ models: await all(client.models.list()), one: (await client.models.retrieve(told.list)).id });
    return;
  }
  const image = { type: "image_url", image_url: { url: "data:image/png;base64," + PIXEL } };
  const content = told.image ? [{ type: "text", text: told.user }, image] : told.user;
  const messages = told.messages ?? [
    ...(told.system ? [{ role: "system", content: told.system }] : []),
    { role: "user", content },
  ];
  const more = told.tools
    ? { tools: told.tools.map(({ name, parameters }) => ({ type: "function", function: { name, parameters } })) }
    : {};
  for (;;) {
    let answer;
    if (told.stream) {
      const asked = { model: told.model, messages, stream: true, stream_options: { include_usage: true }, ...more };
      const stream = client.chat.completions.stream(asked);
      for await (const chunk of stream) talk.note(chunk);
      answer = await stream.finalChatCompletion();
    } else {
      answer = await client.chat.completions.create({ model: told.model, messages, ...more });
      talk.note(answer);
    }
    const { message, finish_reason: finish } = answer.choices[0];
    const calls = message.tool_calls ?? [];
    const shown = calls.map((call) => ({ name: call.function.name, arguments: JSON.parse(call.function.arguments) }));
    const usage = answer.usage ? [answer.usage.prompt_tokens, answer.usage.completion_tokens] : null;
    if (!talk.turn(message.content ?? "", shown, finish, usage)) return;
    messages.push(message);
    for (const call of calls) {
      messages.push({ role: "tool", tool_call_id: call.id, content: talk.answer(call.function.name)[0] });
    }
  }
}

async function responses(talk) {
  const { OpenAI } = require("openai");
  const told = talk.told;
  const client = new OpenAI(talk.options("/v1"));
  let input = [{ role: "user", content: told.user }];
  const more = { store: Boolean(told.store), ...(told.system ? { instructions: told.system } : {}) };
  if (told.tools) {
    more.tools = told.tools.map(({ name, parameters }) => ({ type: "function", name, parameters, strict: false }));
  }
  for (;;) {
    let answer = null;
    if (told.stream) {
      const stream = await client.responses.create({ model: told.model, input, stream: true, ...more });
      for await (const event of stream) {
        talk.note(event);
        if (["response.completed", "response.incomplete", "response.failed"].includes(event.type)) {
          answer = event.response;
        }
      }
      if (!answer || answer.status === "failed") throw new Error("failed: " + answer?.error?.message);
    } else {
      answer = await client.responses.create({ model: told.model, input, ...more });
      talk.note(answer);
    }
    const calls = answer.output.filter((item) => item.type === "function_call");
    const said = answer.output.filter((item) => item.type === "message").flatMap((item) => item.content);
    const text = said.map((part) => part.text ?? "").join("");
    const shown = calls.map((call) => ({ name: call.name, arguments: JSON.parse(call.arguments) }));
    const usage = answer.usage ? [answer.usage.input_tokens, answer.usage.output_tokens] : null;
    const goesOn = talk.turn(text, shown, answer.status, usage);
    if (told.store) talk.turns.at(-1).kept = (await client.responses.retrieve(answer.id)).id === answer.id;
    if (!goesOn) return;
    const results = calls.map((call) => ({
      type: "function_call_output",
      call_id: call.call_id,
      output: talk.answer(call.name)[0],
    }));
    if (told.store) {
      more.previous_response_id = answer.id;
      input = results;
    } else {
      input = [...input, ...answer.output, ...results];
    }
  }
}

async function messages(talk) {
  const { Anthropic } = require("@anthropic-ai/sdk");
  const told = talk.told;
  const client = new Anthropic(talk.options(""));
  if ("list" in told) {
    talk.turns.push({ models: await all(client.models.list()), one: (await client.models.retrieve(told.list)).id });
    return;
  }
  const content = [{ type: "text", text: told.user }];
  if (told.image) content.push({ type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } });
  const said = told.messages ?? [{ role: "user", content }];
  const more = told.system ? { system: told.system } : {};
  if (told.tools) more.tools = told.tools.map(({ name, parameters }) => ({ name, input_schema: parameters }));
  for (;;) {
    const asked = { model: told.model, max_tokens: 1000, messages: said, ...more };
    let answer;
    if (told.stream) {
      const stream = client.messages.stream(asked);
      for await (const event of stream) talk.note(event);
      answer = await stream.finalMessage();
    } else {
      answer = await client.messages.create(asked);
      talk.note(answer);
    }
    const text = answer.content.map((block) => (block.type === "text" ? block.text : "")).join("");
    const calls = answer.content.filter((block) => block.type === "tool_use");
    const shown = calls.map((call) => ({ name: call.name, arguments: call.input }));
    const usage = [answer.usage.input_tokens, answer.usage.output_tokens];
    if (!talk.turn(text, shown, answer.stop_reason, usage)) return;
    said.push({ role: "assistant", content: answer.content });
    const results = calls.map((call) => {
      const [output, failed] = talk.answer(call.name);
      return { type: "tool_result", tool_use_id: call.id, content: output, is_error: failed };
    });
    if (told.beside) results.push({ type: "text", text: told.beside });
    said.push({ role: "user", content: results });
  }
}

async function gemini(talk) {
  const { GoogleGenAI } = require("@google/genai");
  const told = talk.told;
  const httpOptions = { baseUrl: told.base, timeout: 60000, headers: told.headers ?? {} };
  const client = new GoogleGenAI({ apiKey: told.key ?? "any", httpOptions });
  if ("list" in told) {
    const one = (await client.models.get({ model: told.list })).name;
    talk.turns.push({ models: await all(await client.models.list()), one });
    return;
  }
  const parts = [{ text: told.user }];
  if (told.image) parts.push({ inlineData: { mimeType: "image/png", data: PIXEL } });
  const contents = [{ role: "user", parts }];
  const config = told.system ? { systemInstruction: told.system } : {};
  if (told.tools) {
    const declared = told.tools.map(({ name, parameters }) => ({
      name,
      description: name,
      parametersJsonSchema: parameters,
    }));
    config.tools = [{ functionDeclarations: declared }];
  }
  for (;;) {
    const asked = { model: told.model, contents, config };
    const answers = told.stream
      ? await client.models.generateContentStream(asked)
      : [await client.models.generateContent(asked)];
    const all = [];
    let finish = null;
    let usage = null;
    for await (const answer of answers) {
      talk.note(answer);
      usage = answer.usageMetadata ?? usage;
      for (const candidate of answer.candidates ?? []) {
        finish = candidate.finishReason ?? finish;
        all.push(...(candidate.content?.parts ?? []));
      }
    }
    if (finish === null) throw new Error("the stream ended without its end");
    const calls = all.filter((part) => part.functionCall).map((part) => part.functionCall);
    const text = all.map((part) => (part.text && !part.thought ? part.text : "")).join("");
    const shown = calls.map((call) => ({ name: call.name, arguments: call.args }));
    const counts = usage ? [usage.promptTokenCount, usage.candidatesTokenCount] : null;
    if (!talk.turn(text, shown, finish, counts)) return;
    contents.push({ role: "model", parts: all });
    const results = calls.map(({ id, name }) => ({
      functionResponse: { id, name, response: { result: talk.answer(name)[0] } },
    }));
    contents.push({ role: "user", parts: results });
  }
}

async function hold(told) {
  const talk = new Talk(told);
  let error = null;
  try {
    await { chat, responses, messages, gemini }[told.api](talk);
  } catch (problem) {
    error =
      problem instanceof Left
        ? { class: "Left" }
        : {
            class: problem.constructor.name,
            status: problem.status ?? null,
            message: problem.message,
            retry_after: problem.headers?.get?.("retry-after") ?? null,
          };
  }
  return { turns: talk.turns, seen: talk.seen, error };
}

const pieces = [];
for await (const piece of process.stdin) pieces.push(piece);
const held = [];
for (const told of JSON.parse(Buffer.concat(pieces).toString())) held.push(await hold(told));
process.stdout.write(JSON.stringify(held));

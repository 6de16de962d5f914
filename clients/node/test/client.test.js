// The client against the agent at SOTTO_AGENT_LISTEN, over a server that repeats what it is told.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Agent } from "../sottovoce.js";

const SAID = "Anna was in the garden";
const address = process.env.SOTTO_AGENT_LISTEN;
const skip = address ? false : "SOTTO_AGENT_LISTEN names no agent";
let agent;
before(() => { agent = address && new Agent(address); });
after(() => agent?.close());

test("a release has no name, and is the same again", { skip }, async () => {
  const { text } = await agent.privatize(SAID);
  assert.ok(text && !text.includes("Anna"));
  assert.equal((await agent.privatize(SAID)).text, text);
});

test("a conversation is restored as it streams", { skip }, async () => {
  let heard = "";
  for await (const event of agent.chat([{ role: "ROLE_USER", text: SAID }])) heard += event.delta_text ?? "";
  assert.equal(heard, SAID);
});

test("an unknown adapter is an error of grpc", { skip }, async () => {
  await assert.rejects(agent.predict("no-such-adapter", [SAID]).next(), { code: 5 }); // NOT_FOUND
});

test("an agent that is away is unavailable", async () => {
  const nobody = new Agent("127.0.0.1:9");
  await assert.rejects(nobody.privatize(SAID), { code: 14 }); // UNAVAILABLE
  nobody.close();
});

// A sensor that streams: a reading a line in, what left of it and its label out.
// node sensor.js unix:/run/user/1000/sottovoce/agent.sock ADAPTER < readings
import { createInterface } from "node:readline";
import { Agent } from "./sottovoce.js";

const [address, adapter] = process.argv.slice(2);
const agent = new Agent(address);
for await (const answer of agent.predict(adapter, createInterface({ input: process.stdin }))) {
  console.log(`${answer.released_text}\t${answer.label}`);
}
agent.close();

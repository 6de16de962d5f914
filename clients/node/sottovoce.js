// A thin client of the agent on this device. Errors are grpc's, with what the agent says and a fix.
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const protos = fileURLToPath(new URL("protos", import.meta.url));
const files = ["edge_agent", "edge_chat"].map((name) => `sottovoce/v1/${name}.proto`);
const options = { includeDirs: [protos], keepCase: true, defaults: true, enums: String, oneofs: true };
const { EdgeAgentService, EdgeChatService } = grpc.loadPackageDefinition(loadSync(files, options)).sottovoce.v1;

export class Agent {
  /** The token is this app's (`sotto apps new`), where the agent asks for one. */
  constructor(address, token = process.env.SOTTO_APP_TOKEN ?? "") {
    const secret = grpc.credentials.createInsecure();
    const direct = { "grpc.enable_http_proxy": 0 };
    this.agent = new EdgeAgentService(address, secret, direct);
    this.conversations = new EdgeChatService(address, secret, direct);
    this.metadata = new grpc.Metadata();
    if (token) this.metadata.set("authorization", `Bearer ${token}`);
  }

  /** The text as it may leave. */
  privatize(text, privacy = {}) {
    return new Promise((resolve, reject) =>
      this.agent.Privatize({ text, privacy }, this.metadata,
        (error, answer) => (error ? reject(error) : resolve(answer))));
  }

  /** An adapter's answers to texts (any iterable, async or not), in order, as they come. */
  async *predict(adapter, texts) {
    const call = this.agent.PredictStream(this.metadata);
    const sending = (async () => {
      for await (const text of texts) call.write({ request: { adapter, text } });
      call.end();
    })().catch((error) => call.destroy(error));
    for await (const answer of call) yield answer.response;
    await sending;
  }

  /** What leaves, pieces of the answer, how it ended; turns are {role: "ROLE_USER", text}. */
  chat(turns) {
    return this.conversations.Chat({ turns }, this.metadata);
  }

  close() {
    this.agent.close();
    this.conversations.close();
  }
}

export interface Release { text: string; level: string; mechanism: string; eta: number }
export interface LabelScore { label: string; score: number }
export interface Prediction { label: string; scores: LabelScore[]; released_text: string; answered: string }
export interface Turn { role: "ROLE_SYSTEM" | "ROLE_USER" | "ROLE_ASSISTANT"; text: string }
export interface ChatEvent { event: "departed" | "delta_text" | "answered" | "tool_call"; delta_text?: string }

export class Agent {
  constructor(address: string, token?: string);
  privatize(text: string, privacy?: { level?: string; mechanism?: string; policy?: string }): Promise<Release>;
  predict(adapter: string, texts: Iterable<string> | AsyncIterable<string>): AsyncGenerator<Prediction>;
  chat(turns: Turn[]): AsyncIterable<ChatEvent>;
  close(): void;
}

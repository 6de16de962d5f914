import Foundation
#if canImport(FoundationNetworking)  // on Linux it stands apart
import FoundationNetworking
#endif

/// What the agent answered instead, with a fix.
struct Refused: Error, CustomStringConvertible {
  let description: String
}

/// A conversation through the OpenAI endpoint of the agent on this device.
struct OpenAIEndpoint {
  private struct Turn: Codable { let role, content: String }
  private struct Asked: Encodable { let model = "default", messages: [Turn] }
  private struct Answer: Decodable { let choices: [Choice] }
  private struct Choice: Decodable { let message: Turn }

  private let http: URLSession
  private let completions: URL
  private var turns: [Turn] = []

  init(_ base: URL, key: String) {
    let settings = URLSessionConfiguration.ephemeral
    // No proxy: what is sent to the OpenAI endpoint is clear text.
    settings.connectionProxyDictionary = [:]
    #if canImport(FoundationNetworking)
    setenv("no_proxy", "*", 1)  // libcurl goes by this alone
    #endif
    settings.httpAdditionalHeaders = [
      "Authorization": "Bearer \(key)",
      "Content-Type": "application/json",
      "X-Sottovoce-Conversation": UUID().uuidString,
    ]
    http = URLSession(configuration: settings)
    completions = base.appendingPathComponent("chat/completions")
  }

  /// The answer, turned back.
  /// - Throws: `Refused`, or URLSession's errors where no agent is.
  mutating func say(_ text: String) async throws -> String {
    let asked = turns + [Turn(role: "user", content: text)]
    var request = URLRequest(url: completions)
    request.httpMethod = "POST"
    request.httpBody = try JSONEncoder().encode(Asked(messages: asked))
    let (body, response) = try await http.data(for: request)
    guard (response as? HTTPURLResponse)?.statusCode == 200 else {
      throw Refused(description: String(decoding: body, as: UTF8.self))
    }
    let answer = try JSONDecoder().decode(Answer.self, from: body).choices[0].message
    turns = asked + [answer]
    return answer.content
  }
}

import Foundation

/// A chat line: what is typed is privatised, and the answer is turned back.
///
/// OPENAI_ADDRESS=http://127.0.0.1:8472/v1 KEY=$(cat openai.key) ./chat
@main
struct Chat {
  static func main() async {
    let told = ProcessInfo.processInfo.environment
    var endpoint = OpenAIEndpoint(URL(string: told["OPENAI_ADDRESS"]!)!, key: told["KEY"]!)
    do {
      while let line = readLine() { print(try await endpoint.say(line)) }
    } catch {
      FileHandle.standardError.write(Data("\(error)\n".utf8))
      exit(1)
    }
  }
}

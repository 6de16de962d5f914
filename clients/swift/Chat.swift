import Foundation

/// A chat line: what is typed is privatised, and the answer is turned back.
///
/// DOORWAY=http://127.0.0.1:8472/v1 KEY=$(cat doorway.key) ./chat
@main
struct Chat {
  static func main() async {
    let told = ProcessInfo.processInfo.environment
    var doorway = Doorway(URL(string: told["DOORWAY"]!)!, key: told["KEY"]!)
    do {
      while let line = readLine() { print(try await doorway.say(line)) }
    } catch {
      FileHandle.standardError.write(Data("\(error)\n".utf8))
      exit(1)
    }
  }
}

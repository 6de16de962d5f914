import java.io.PrintStream
import sottovoce.OpenAIEndpoint

/**
 * A chat line: what is typed is privatised, and the answer is turned back.
 *
 * OPENAI_ADDRESS=http://127.0.0.1:8472/v1 KEY=$(cat openai.key) java -cp ... ChatKt
 */
fun main() {
  val endpoint = OpenAIEndpoint(System.getenv("OPENAI_ADDRESS"), System.getenv("KEY"))
  val out = PrintStream(System.out, true, "UTF-8")
  System.`in`.bufferedReader().forEachLine { out.println(endpoint.say(it)) }
}

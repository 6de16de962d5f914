import java.io.PrintStream
import sottovoce.Doorway

/**
 * A chat line: what is typed is privatised, and the answer is turned back.
 *
 * DOORWAY=http://127.0.0.1:8472/v1 KEY=$(cat doorway.key) java -cp ... ChatKt
 */
fun main() {
  val doorway = Doorway(System.getenv("DOORWAY"), System.getenv("KEY"))
  val out = PrintStream(System.out, true, "UTF-8")
  System.`in`.bufferedReader().forEachLine { out.println(doorway.say(it)) }
}

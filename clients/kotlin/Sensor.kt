import java.io.PrintStream
import sottovoce.Agent

/**
 * A sensor that streams, by the client in Java: a reading a line in, what left of it and its label out.
 *
 * java -cp ... SensorKt 127.0.0.1:8470 ADAPTER < readings
 *
 * The token of this app is in SOTTO_APP_TOKEN, if the agent asks for one.
 */
fun main(given: Array<String>) {
  val out = PrintStream(System.out, true, "UTF-8")
  val agent = Agent(given[0], System.getenv("SOTTO_APP_TOKEN") ?: "")
  try {
    agent.predict(given[1], System.`in`.bufferedReader().lines()) {
      out.println("${it.releasedText}\t${it.label}")
    }
  } finally {
    agent.close()
  }
}

import io.grpc.StatusRuntimeException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import sottovoce.Agent;

/** A sensor that streams: a reading a line in, what left of it and its label out. */
public final class Sensor {
  /**
   * java Sensor 127.0.0.1:8470 ADAPTER < readings
   *
   * <p>The token of this app is in SOTTO_APP_TOKEN, if the agent asks for one.
   */
  public static void main(String[] given) {
    var readings = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    var token = System.getenv().getOrDefault("SOTTO_APP_TOKEN", "");
    try (var agent = new Agent(given[0], token)) {
      agent.predict(
          given[1],
          readings.lines(),
          answer -> out.println(answer.getReleasedText() + "\t" + answer.getLabel()));
    } catch (StatusRuntimeException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }
}

package sottovoce

import java.io.IOException
import java.net.HttpURLConnection
import java.net.Proxy
import java.net.URL
import java.util.UUID
import org.json.JSONArray
import org.json.JSONObject

/** A conversation through the OpenAI endpoint of the agent on this device, by what every Android has. */
class OpenAIEndpoint(private val base: String, private val key: String) {
  private val name = UUID.randomUUID().toString()
  private var turns = listOf<JSONObject>()

  /** The answer, turned back. Throws IOException with what the agent says, and a fix. */
  fun say(text: String): String {
    val asked = turns + JSONObject().put("role", "user").put("content", text)
    val answer = post(JSONObject().put("model", "default").put("messages", JSONArray(asked)))
    val turn = answer.getJSONArray("choices").getJSONObject(0).getJSONObject("message")
    turns = asked + turn
    return turn.getString("content")
  }

  private fun post(body: JSONObject): JSONObject {
    // No proxy: what is sent to the OpenAI endpoint is clear text.
    val asking = URL("$base/chat/completions").openConnection(Proxy.NO_PROXY) as HttpURLConnection
    asking.readTimeout = 60_000
    asking.doOutput = true
    asking.setRequestProperty("Authorization", "Bearer $key")
    asking.setRequestProperty("Content-Type", "application/json")
    asking.setRequestProperty("X-Sottovoce-Conversation", name)
    asking.outputStream.use { it.write(body.toString().toByteArray()) }
    if (asking.responseCode != 200) throw IOException(asking.errorStream.reader().readText())
    return JSONObject(asking.inputStream.reader().readText())
  }
}

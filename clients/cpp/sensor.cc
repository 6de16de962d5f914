// A sensor that streams: a reading a line in, what left of it and its label out.
// sensor unix:/run/user/1000/sottovoce/agent.sock ADAPTER < readings
#include <iostream>

#include "sottovoce.h"

int main(int count, char** given) {
  if (count != 3) return 2;
  sottovoce::Agent agent(given[1]);
  const auto status = agent.Predict(given[2], std::cin, [](const sottovoce::v1::PredictResponse& answer) {
    std::cout << answer.released_text() << '\t' << answer.label() << std::endl;
  });
  if (!status.ok()) std::cerr << status.error_message() << '\n';
  return status.ok() ? 0 : 1;
}

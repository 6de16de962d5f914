// A sensor that streams: a reading a line in, what left of it and its label out.
//
//	sensor unix:/run/user/1000/sottovoce/agent.sock ADAPTER < readings
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"

	"sottovoce/client"
	v1 "sottovoce/v1"
)

func main() {
	agent, err := client.Dial(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()
	readings := make(chan string)
	go func() {
		defer close(readings)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			readings <- lines.Text()
		}
	}()
	err = agent.PredictAll(context.Background(), os.Args[2], readings, func(answer *v1.PredictResponse) {
		fmt.Printf("%s\t%s\n", answer.ReleasedText, answer.Label)
	})
	if err != nil {
		log.Fatal(err)
	}
}

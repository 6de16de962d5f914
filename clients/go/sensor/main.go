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
	readings, lines := make(chan string), bufio.NewScanner(os.Stdin)
	go func() {
		defer close(readings)
		for lines.Scan() {
			readings <- lines.Text()
		}
	}()
	err = agent.PredictAll(context.Background(), os.Args[2], readings, func(answer *v1.PredictResponse) {
		fmt.Printf("%s\t%s\n", answer.ReleasedText, answer.Label)
	})
	if err == nil {
		err = lines.Err() // a reading of more than 64 KiB ends the scan
	}
	if err != nil {
		log.Fatal(err)
	}
}

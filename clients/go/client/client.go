// Package client is a thin client of the agent on this device. Errors are
// grpc's, with what the agent says and a fix.
package client

import (
	"context"
	"io"
	"net"
	"os"
	"strings"

	v1 "sottovoce/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Debian's gRPC brings a codec for messages of the older kind alone.
type codec struct{}

func (codec) Name() string                          { return "proto" }
func (codec) Marshal(m interface{}) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }
func (codec) Unmarshal(data []byte, m interface{}) error {
	return proto.Unmarshal(data, m.(proto.Message))
}

// Agent speaks to the agent at an address: "unix:PATH" or "HOST:PORT".
type Agent struct {
	v1.EdgeAgentServiceClient // every call of the agent
	conn                      *grpc.ClientConn
}

// introduced adds the token of this app (`sotto apps new`), where the agent asks for one.
func introduced(ctx context.Context) context.Context {
	if token := os.Getenv("SOTTO_APP_TOKEN"); token != "" {
		return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return ctx
}

func unary(ctx context.Context, method string, asked, answer interface{}, conn *grpc.ClientConn,
	call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	return call(introduced(ctx), method, asked, answer, conn, options...)
}

func stream(ctx context.Context, about *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return open(introduced(ctx), about, conn, method, options...)
}

// Dial connects when it is first needed.
func Dial(address string) (*Agent, error) {
	network, place := "tcp", address
	if strings.HasPrefix(address, "unix:") {
		network, place = "unix", strings.TrimPrefix(address, "unix:")
	}
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, place)
	}
	conn, err := grpc.Dial("passthrough:///localhost", grpc.WithInsecure(), grpc.WithNoProxy(),
		grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(stream),
		grpc.WithContextDialer(dial), grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
	return &Agent{v1.NewEdgeAgentServiceClient(conn), conn}, err
}

// Close lets go of the connection.
func (a *Agent) Close() error { return a.conn.Close() }

// PredictAll hands an adapter's answers to texts over, in order, as they come.
func (a *Agent) PredictAll(ctx context.Context, adapter string, texts <-chan string, answered func(*v1.PredictResponse)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := a.PredictStream(ctx)
	if err != nil {
		return err
	}
	go func() {
		for text := range texts {
			asked := &v1.PredictRequest{Adapter: adapter, Text: text}
			if stream.Send(&v1.PredictStreamRequest{Request: asked}) != nil {
				return // Recv says why
			}
		}
		stream.CloseSend()
	}()
	for {
		answer, err := stream.Recv()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		answered(answer.Response)
	}
}

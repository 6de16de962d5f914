package sottovoce;

import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import io.netty.channel.epoll.EpollDomainSocketChannel;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.unix.DomainSocketAddress;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Consumer;
import java.util.stream.Stream;
import sottovoce.v1.EdgeAgentServiceGrpc;
import sottovoce.v1.PredictRequest;
import sottovoce.v1.PredictResponse;
import sottovoce.v1.PredictStreamRequest;
import sottovoce.v1.PredictStreamResponse;
import sottovoce.v1.PrivatizeRequest;
import sottovoce.v1.PrivatizeResponse;

/** A thin client of the agent on this device. Errors are gRPC's, with what the agent says and a fix. */
public final class Agent implements AutoCloseable {
  private static final Metadata.Key<String> TOKEN =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final ManagedChannel channel;
  private final EpollEventLoopGroup loop;
  private final Metadata token = new Metadata();

  /**
   * Connects when it is first needed.
   *
   * @param address "unix:PATH", for which Netty's native library must be there, or "HOST:PORT"
   * @param token this app's (`sotto apps new`), or "" where the agent asks for none
   */
  public Agent(String address, String token) {
    if (address.startsWith("unix:")) {
      loop = new EpollEventLoopGroup(1);
      channel =
          NettyChannelBuilder.forAddress(new DomainSocketAddress(address.substring(5)))
              .eventLoopGroup(loop)
              .channelType(EpollDomainSocketChannel.class)
              .overrideAuthority("localhost")
              .usePlaintext()
              .build();
    } else {
      loop = null;
      channel =
          NettyChannelBuilder.forTarget(address)
              .proxyDetector(server -> null)
              .usePlaintext()
              .build();
    }
    if (!token.isEmpty()) this.token.put(TOKEN, "Bearer " + token);
  }

  /** The text as it may leave. */
  public PrivatizeResponse privatize(String text) {
    var stub = EdgeAgentServiceGrpc.newBlockingStub(channel);
    return stub.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(token))
        .privatize(PrivatizeRequest.newBuilder().setText(text).build());
  }

  /** An adapter's answers to texts, in order, as they come. */
  public void predict(String adapter, Stream<String> texts, Consumer<PredictResponse> answered) {
    var ended = new CompletableFuture<Void>();
    var stub = EdgeAgentServiceGrpc.newStub(channel);
    StreamObserver<PredictStreamRequest> asking =
        stub.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(token))
            .predictStream(
                new StreamObserver<PredictStreamResponse>() {
                  @Override
                  public void onNext(PredictStreamResponse answer) {
                    answered.accept(answer.getResponse());
                  }

                  @Override
                  public void onError(Throwable error) {
                    ended.completeExceptionally(error);
                  }

                  @Override
                  public void onCompleted() {
                    ended.complete(null);
                  }
                });
    var asked = PredictRequest.newBuilder().setAdapter(adapter);
    texts
        .takeWhile(text -> !ended.isDone())
        .map(text -> PredictStreamRequest.newBuilder().setRequest(asked.setText(text)).build())
        .forEach(asking::onNext);
    asking.onCompleted();
    try {
      ended.join();
    } catch (CompletionException error) {
      throw (RuntimeException) error.getCause();
    }
  }

  @Override
  public void close() {
    channel.shutdownNow();
    if (loop != null) loop.shutdownGracefully();
  }
}

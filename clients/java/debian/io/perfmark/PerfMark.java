package io.perfmark;

/**
 * What Debian's gRPC calls at each step and Debian does not ship: a profiler's marks, which do
 * nothing unless it runs. Builds against Maven's jars need none of this.
 */
public final class PerfMark {
  private static final Tag TAG = new Tag();
  private static final Link LINK = new Link();

  public static void startTask(String name) {}

  public static void startTask(String name, Tag tag) {}

  public static void stopTask(String name) {}

  public static void stopTask(String name, Tag tag) {}

  public static void event(String name) {}

  public static void event(String name, Tag tag) {}

  public static void linkIn(Link link) {}

  public static Link linkOut() {
    return LINK;
  }

  public static void attachTag(Tag tag) {}

  public static Tag createTag() {
    return TAG;
  }

  public static Tag createTag(long number) {
    return TAG;
  }

  public static Tag createTag(String name) {
    return TAG;
  }

  public static Tag createTag(String name, long number) {
    return TAG;
  }
}

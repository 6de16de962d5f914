package io.perfmark;

/** See PerfMark. */
public final class Link {}

"""The pages' shared parts: admission, security headers, styles and scripts."""

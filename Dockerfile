# syntax=docker/dockerfile:1

FROM rust:1.95-bookworm AS build
WORKDIR /src
# Shown by `quittance --version`; the build has no .git to ask.
ARG GIT_COMMIT=unknown
ENV QUITTANCE_GIT_COMMIT=$GIT_COMMIT
COPY . .
RUN cargo build --release --locked --package quittance --bin quittance \
    && mkdir -p /out/data \
    && cp target/release/quittance /out/quittance

# No shell, no package manager, no root. There is therefore no HEALTHCHECK: point the orchestrator at
# GET /healthz (process is up) and GET /readyz (store, RPCs and a funded lane), and run the image once with
# `check` before rolling out: it prints what is wrong with the settings and exits 1.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/quittance /usr/local/bin/quittance
COPY --from=build /src/LICENSE /usr/share/doc/quittance/LICENSE
# The embedded store's default place is the working directory.
COPY --from=build --chown=nonroot:nonroot /out/data /var/lib/quittance
WORKDIR /var/lib/quittance
VOLUME /var/lib/quittance
# A container's loopback reaches nobody. Listening wider still needs `server.api_keys` or `server.public = true`;
# the operator's listener stays on loopback until it is moved with QUITTANCE_SERVER__OPERATOR_LISTEN.
ENV QUITTANCE_CONFIG=/etc/quittance/quittance.toml \
    QUITTANCE_SERVER__LISTEN=0.0.0.0:4021
EXPOSE 4021 4022
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/quittance"]
CMD ["serve"]

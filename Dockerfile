# A static binary on an image without a shell, run by nobody in particular.
#   docker build --build-arg VERSION=$(git describe --tags --always) -t mulligan .

FROM golang:1.26 AS build
WORKDIR /src
# Modules first: they change less often than the code does.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /mulligan ./cmd/mulligan

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /src/LICENSE /LICENSE
COPY --from=build /mulligan /mulligan
# The proxy and its admin port. By default both listen on 127.0.0.1 only, for
# what shares the container's network: see docs/examples.
EXPOSE 7080 7081
ENTRYPOINT ["/mulligan"]
CMD ["serve"]

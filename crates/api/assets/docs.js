// Starts Swagger UI. Served behind the bundle in one file, so that the page's policy can forbid inline scripts.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", follow);
  follow();
  window.SwaggerUIBundle({
    url: "/api/hyperfleet/v1/openapi",
    dom_id: "#swagger-ui",
    presets: [window.SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    deepLinking: true,
    filter: true,
    displayRequestDuration: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    // Without this Swagger UI asks a public server whether the document is valid.
    validatorUrl: null,
  });
})();

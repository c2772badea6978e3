"""Who gets what from the reference server: each route with a status for each caller.

Every request is empty: whoever is let in is told what is missing (404, 422), and
whoever is not gets 401 or 403 before, or is sent to the login (303).
"""

# A shopper says which store; keys and tokens open nothing of the storefront. A key
# without scopes may look after its own webhooks, of no topic.
PUBLIC = """\
nobody shopper staff scopeless keyed
GET /openapi.json                                                 200 200 200 200 200
GET /healthz                                                      200 200 200 200 200
GET /robots.txt                                                   200 200 200 200 200
GET /storefront/store                                             400 200 400 400 400
GET /storefront/products                                          400 200 400 400 400
GET /storefront/products/x                                        400 404 400 400 400
GET /storefront/collections                                       400 200 400 400 400
GET /storefront/collections/x                                     400 404 400 400 400
GET /storefront/navigation                                        400 200 400 400 400
GET /storefront/navigation/x                                      400 404 400 400 400
POST /storefront/discounts/validate                               400 422 400 400 400
POST /storefront/orders                                           400 422 400 400 400
GET /storefront/orders/track/x                                    400 404 400 400 400
POST /storefront/orders/track/x/payment                           400 404 400 400 400
POST /api/shipping/calculate                                      422 422 422 422 422
OPTIONS /api/shipping/calculate                                   204 204 204 204 204
OPTIONS /storefront/collections                                   204 204 204 204 204
OPTIONS /storefront/collections/x                                 204 204 204 204 204
OPTIONS /storefront/discounts/validate                            204 204 204 204 204
OPTIONS /storefront/navigation                                    204 204 204 204 204
OPTIONS /storefront/navigation/x                                  204 204 204 204 204
OPTIONS /storefront/orders                                        204 204 204 204 204
OPTIONS /storefront/orders/track/x                                204 204 204 204 204
OPTIONS /storefront/orders/track/x/payment                        204 204 204 204 204
OPTIONS /storefront/products                                      204 204 204 204 204
OPTIONS /storefront/products/x                                    204 204 204 204 204
OPTIONS /storefront/store                                         204 204 204 204 204
GET /api/v1/products                                              401 401 401 403 200
POST /api/v1/products                                             401 401 401 403 422
GET /api/v1/products/x                                            401 401 401 403 404
PUT /api/v1/products/x                                            401 401 401 403 404
DELETE /api/v1/products/x                                         401 401 401 403 404
GET /api/v1/orders                                                401 401 401 403 200
POST /api/v1/orders                                               401 401 401 403 422
GET /api/v1/orders/x                                              401 401 401 403 404
POST /api/v1/orders/x/fulfill                                     401 401 401 403 404
POST /api/v1/orders/x/cancel                                      401 401 401 403 404
GET /api/v1/inventory                                             401 401 401 403 200
GET /api/v1/inventory/history                                     401 401 401 403 200
POST /api/v1/inventory/adjust                                     401 401 401 403 422
POST /api/v1/inventory/set                                        401 401 401 403 422
GET /api/v1/inventory/x                                           401 401 401 403 404
GET /api/v1/customers                                             401 401 401 403 200
POST /api/v1/customers                                            401 401 401 403 422
GET /api/v1/customers/x                                           401 401 401 403 404
PUT /api/v1/customers/x                                           401 401 401 403 404
DELETE /api/v1/customers/x                                        401 401 401 403 404
GET /api/v1/store                                                 401 401 401 403 200
GET /api/v1/webhooks                                              401 401 401 200 200
POST /api/v1/webhooks                                             401 401 401 422 422
GET /api/v1/webhooks/x                                            401 401 401 404 404
PUT /api/v1/webhooks/x                                            401 401 401 404 404
DELETE /api/v1/webhooks/x                                         401 401 401 404 404
POST /api/v1/webhooks/x/rotate-secret                             401 401 401 404 404
POST /api/v1/webhooks/x/test                                      401 401 401 404 404
POST /api/v1/webhooks/x/replay                                    401 401 401 422 422
GET /api/v1/webhooks/x/deliveries                                 401 401 401 404 404
GET /api/v1/webhooks/x/deliveries/x                               401 401 401 404 404
POST /api/v1/webhooks/x/deliveries/x/redeliver                    401 401 401 404 404
GET /shop/demo                                                    200 200 200 200 200
GET /shop-files/x/x                                               404 404 404 404 404
"""
# Staff has the control token; a merchant has logged in, and sends forms without the
# token of a page.
CONTROL = """\
nobody keyed staff merchant
GET /_control/healthz                                             200 200 200 200
POST /_control/reset                                              401 401 200 401
GET /_control/clock                                               401 401 200 401
POST /_control/clock                                              401 401 200 401
GET /_control/retirement                                          401 401 200 401
PUT /_control/retirement                                          401 401 422 401
DELETE /_control/retirement                                       401 401 200 401
GET /_control/outbox                                              401 401 200 401
GET /_control/stores                                              401 401 200 401
POST /_control/stores                                             401 401 422 401
GET /_control/stores/demo                                         401 401 200 401
PUT /_control/stores/demo/settings                                401 401 200 401
POST /_control/stores/demo/keys                                   401 401 201 401
DELETE /_control/stores/demo/keys/x                               401 401 404 401
POST /_control/stores/demo/orders/x/confirm                       401 401 404 401
POST /_control/stores/demo/orders/x/mark-paid                     401 401 404 401
POST /_control/stores/demo/orders/x/refund                        401 401 404 401
POST /_control/stores/demo/webhooks                               401 401 422 401
GET /_control/stores/demo/state                                   401 401 200 401
GET /_control/stores/demo/collections                             401 401 200 401
POST /_control/stores/demo/collections                            401 401 422 401
GET /_control/stores/demo/collections/x                           401 401 404 401
PUT /_control/stores/demo/collections/x                           401 401 404 401
DELETE /_control/stores/demo/collections/x                        401 401 404 401
PUT /_control/stores/demo/collections/x/products                  401 401 422 401
POST /_control/stores/demo/collections/x/publish                  401 401 404 401
POST /_control/stores/demo/collections/x/unpublish                401 401 404 401
GET /_control/stores/demo/discounts                               401 401 200 401
POST /_control/stores/demo/discounts                              401 401 422 401
GET /_control/stores/demo/discounts/x                             401 401 404 401
PUT /_control/stores/demo/discounts/x                             401 401 404 401
DELETE /_control/stores/demo/discounts/x                          401 401 404 401
GET /_control/stores/demo/zones                                   401 401 200 401
POST /_control/stores/demo/zones                                  401 401 422 401
GET /_control/stores/demo/zones/x                                 401 401 404 401
PUT /_control/stores/demo/zones/x                                 401 401 404 401
DELETE /_control/stores/demo/zones/x                              401 401 404 401
GET /_control/stores/demo/menus                                   401 401 200 401
GET /_control/stores/demo/menus/x                                 401 401 404 401
PUT /_control/stores/demo/menus/x                                 401 401 422 401
DELETE /_control/stores/demo/menus/x                              401 401 404 401
GET /_control/stores/demo/quirks                                  401 401 200 401
PUT /_control/stores/demo/quirks                                  401 401 422 401
GET /_control/stores/demo/faults                                  401 401 200 401
PUT /_control/stores/demo/faults                                  401 401 200 401
DELETE /_control/stores/demo/faults                               401 401 200 401
DELETE /_control/stores/demo/faults/x                             401 401 404 401
POST /_control/stores/demo/fixtures/x                             401 401 404 401
POST /_control/stores/demo/reset                                  401 401 200 401
GET /                                                             303 303 303 303
GET /dashboard                                                    303 303 303 303
GET /dashboard/login                                              200 200 200 200
POST /dashboard/login                                             403 403 403 403
POST /dashboard/logout                                            303 303 303 403
GET /dashboard/assets/nothing                                     404 404 404 404
GET /dashboard/stores/demo/orders                                 303 303 303 200
GET /dashboard/stores/demo/orders/x                               303 303 303 404
POST /dashboard/stores/demo/orders/x/confirm                      303 303 303 403
POST /dashboard/stores/demo/orders/x/mark-paid                    303 303 303 403
POST /dashboard/stores/demo/orders/x/refund                       303 303 303 403
POST /dashboard/stores/demo/orders/x/fulfill                      303 303 303 403
POST /dashboard/stores/demo/orders/x/cancel                       303 303 303 403
GET /dashboard/stores/demo/new-order                              303 303 303 200
POST /dashboard/stores/demo/new-order                             303 303 303 403
GET /dashboard/stores/demo/customers                              303 303 303 200
GET /dashboard/stores/demo/new-customer                           303 303 303 200
POST /dashboard/stores/demo/new-customer                          303 303 303 403
GET /dashboard/stores/demo/customers/x                            303 303 303 404
GET /dashboard/stores/demo/customers/x/edit                       303 303 303 404
POST /dashboard/stores/demo/customers/x/edit                      303 303 303 403
POST /dashboard/stores/demo/customers/x/delete                    303 303 303 403
GET /dashboard/stores/demo/discounts                              303 303 303 200
GET /dashboard/stores/demo/new-discount                           303 303 303 200
POST /dashboard/stores/demo/new-discount                          303 303 303 403
GET /dashboard/stores/demo/discounts/x                            303 303 303 404
POST /dashboard/stores/demo/discounts/x                           303 303 303 403
POST /dashboard/stores/demo/discounts/x/active                    303 303 303 403
POST /dashboard/stores/demo/discounts/x/delete                    303 303 303 403
GET /dashboard/stores/demo/products                               303 303 303 200
GET /dashboard/stores/demo/new-product                            303 303 303 200
POST /dashboard/stores/demo/new-product                           303 303 303 403
GET /dashboard/stores/demo/products/x                             303 303 303 404
POST /dashboard/stores/demo/products/x/stock                      303 303 303 403
POST /dashboard/stores/demo/products/x/delete                     303 303 303 403
GET /dashboard/stores/demo/stock                                  303 303 303 200
GET /dashboard/stores/demo/products/x/edit                        303 303 303 404
POST /dashboard/stores/demo/products/x/edit                       303 303 303 403
GET /dashboard/stores/demo/collections                            303 303 303 200
GET /dashboard/stores/demo/new-collection                         303 303 303 200
POST /dashboard/stores/demo/new-collection                        303 303 303 403
GET /dashboard/stores/demo/collections/x                          303 303 303 404
POST /dashboard/stores/demo/collections/x                         303 303 303 403
POST /dashboard/stores/demo/collections/x/delete                  303 303 303 403
GET /dashboard/stores/demo/navigation                             303 303 303 200
POST /dashboard/stores/demo/navigation                            303 303 303 403
GET /dashboard/stores/demo/navigation/x                           303 303 303 404
POST /dashboard/stores/demo/navigation/x                          303 303 303 403
POST /dashboard/stores/demo/navigation/x/delete                   303 303 303 403
GET /dashboard/stores/demo/settings                               303 303 303 200
POST /dashboard/stores/demo/settings                              303 303 303 403
GET /dashboard/stores/demo/payments                               303 303 303 200
POST /dashboard/stores/demo/payments                              303 303 303 403
GET /dashboard/stores/demo/new-store                              303 303 303 200
POST /dashboard/stores/demo/new-store                             303 303 303 403
GET /dashboard/stores/demo/shipping                               303 303 303 200
GET /dashboard/stores/demo/new-zone                               303 303 303 200
POST /dashboard/stores/demo/new-zone                              303 303 303 403
GET /dashboard/stores/demo/shipping/x                             303 303 303 404
POST /dashboard/stores/demo/shipping/x                            303 303 303 403
POST /dashboard/stores/demo/shipping/x/delete                     303 303 303 403
GET /dashboard/stores/demo/api                                    303 303 303 200
POST /dashboard/stores/demo/api/keys                              303 303 303 403
POST /dashboard/stores/demo/api/keys/x/revoke                     303 303 303 403
POST /dashboard/stores/demo/api/webhooks                          303 303 303 403
GET /dashboard/stores/demo/api/webhooks/x                         303 303 303 404
POST /dashboard/stores/demo/api/webhooks/x                        303 303 303 403
POST /dashboard/stores/demo/api/webhooks/x/status                 303 303 303 403
POST /dashboard/stores/demo/api/webhooks/x/test                   303 303 303 403
POST /dashboard/stores/demo/api/webhooks/x/rotate-secret          303 303 303 403
POST /dashboard/stores/demo/api/webhooks/x/delete                 303 303 303 403
GET /dashboard/stores/demo/api/webhooks/x/deliveries/x            303 303 303 404
POST /dashboard/stores/demo/api/webhooks/x/deliveries/x/redeliver 303 303 303 403
GET /dashboard/stores/demo/mails                                  303 303 303 200
GET /dashboard/stores/demo/mails/x                                303 303 303 404
GET /dashboard/stores/demo/quirks                                 303 303 303 200
POST /dashboard/stores/demo/quirks                                303 303 303 403
GET /dashboard/stores/demo/fixtures                               303 303 303 200
POST /dashboard/stores/demo/fixtures                              303 303 303 403
GET /dashboard/stores/demo/faults                                 303 303 303 200
POST /dashboard/stores/demo/faults                                303 303 303 403
POST /dashboard/stores/demo/faults/disarm                         303 303 303 403
POST /dashboard/stores/demo/faults/x/disarm                       303 303 303 403
GET /dashboard/stores/demo/clock                                  303 303 303 200
POST /dashboard/stores/demo/clock                                 303 303 303 403
GET /dashboard/nothing/at/all                                     404 404 404 404
"""

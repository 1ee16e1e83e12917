# URLs of functions. Since October 2025 a caller needs two permissions: to use the URL, and to invoke the function. The
# second is given for calls by the URL alone, or it would open direct invocation as well.

locals {
  url_functions = var.function_urls == null ? toset([]) : local.http

  # One pair of permissions for each function and caller.
  url_callers = { for pair in setproduct(local.url_functions, try(var.function_urls.authorization == "NONE" ? ["*"] : var.function_urls.principals, [])) :
    "${pair[0]} ${pair[1]}" => { function = pair[0], principal = pair[1] }
  }
}

resource "aws_lambda_function_url" "function" {
  for_each           = local.url_functions
  function_name      = aws_lambda_function.function[each.key].function_name
  authorization_type = var.function_urls.authorization
  invoke_mode        = var.function_urls.streaming ? "RESPONSE_STREAM" : "BUFFERED"
}

resource "aws_lambda_permission" "url" {
  for_each               = local.url_callers
  statement_id           = "url-${substr(sha256(each.value.principal), 0, 16)}"
  action                 = "lambda:InvokeFunctionUrl"
  function_name          = aws_lambda_function.function[each.value.function].function_name
  principal              = each.value.principal
  function_url_auth_type = var.function_urls.authorization
}

resource "aws_lambda_permission" "url_invoke" {
  for_each                 = local.url_callers
  statement_id             = "url-invoke-${substr(sha256(each.value.principal), 0, 16)}"
  action                   = "lambda:InvokeFunction"
  function_name            = aws_lambda_function.function[each.value.function].function_name
  principal                = each.value.principal
  invoked_via_function_url = true
}
